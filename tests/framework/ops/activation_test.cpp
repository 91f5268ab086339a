#include "framework/ops/activation.h"

#include <numbers>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

using enum ActivationFunction;

double reference(ActivationFunction kind, double x) {
  switch (kind) {
    case relu:
      return x > 0 ? x : 0;
    case gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case silu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

Function activation_of(ActivationFunction kind) {
  return [kind](Tape&, const std::vector<Var>& in) { return activation(in[0], kind); };
}

Function gated(ActivationFunction kind) {
  return [kind](Tape&, const std::vector<Var>& in) { return gated_activation(in[0], in[1], kind); };
}

// Differences across the kink of relu mean nothing.
Tensor away_from_zero(const Shape& shape, uint32_t salt) {
  Tensor x = random_tensor(shape, DType::f64, salt, 2.0);
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, x.at(i) + std::copysign(0.1, x.at(i)));
  return x;
}

class ActivationTest : public ::testing::TestWithParam<ActivationFunction> {};

TEST_P(ActivationTest, MatchesTheFormulaOverTheWholeRange) {
  for (DType dtype : {DType::f64, DType::f32}) {
    Tensor x = Tensor::zeros({4001}, dtype);
    Tensor y = Tensor::zeros({4001}, DType::f64);
    for (int64_t i = 0; i < 4001; ++i) {
      x.set(i, static_cast<double>(i - 2000) / 150.0);
      y.set(i, reference(GetParam(), x.at(i)));
    }
    const Tensor got = run(activation_of(GetParam()), {x}).value;
    double worst = 0;  // absolute where the value is small
    for (int64_t i = 0; i < 4001; ++i) {
      worst = std::max(worst, std::abs(got.at(i) - y.at(i)) / std::max(1.0, std::abs(y.at(i))));
    }
    EXPECT_LT(worst, dtype == DType::f64 ? 1e-14 : 6e-7);
  }
}

TEST_P(ActivationTest, GradientsMatchDifferences) {
  for (int64_t n : {1, 7, 33, 130}) check_op(activation_of(GetParam()), {away_from_zero({1, n}, 5)});
}

TEST_P(ActivationTest, StaysFiniteFarOut) {
  for (DType dtype : {DType::f64, DType::f32}) {
    Tensor x = Tensor::zeros({34}, dtype);
    for (int64_t i = 0; i < 34; ++i) x.set(i, i % 2 == 0 ? 1e3 : -1e3);
    const Gradients far = run(activation_of(GetParam()), {x});
    for (int64_t i = 0; i < 34; ++i) {
      EXPECT_EQ(far.value.at(i), i % 2 == 0 ? 1e3 : 0.0);
      EXPECT_TRUE(std::isfinite(far.inputs[0].at(i)));
    }
  }
}

TEST_P(ActivationTest, ANanStaysOne) {
  for (DType dtype : {DType::f64, DType::f32}) {
    Tensor x = random_tensor({35}, dtype, 1);
    x.set(3, NAN);
    x.set(34, NAN);
    const Gradients got = run(activation_of(GetParam()), {x});
    EXPECT_TRUE(std::isnan(got.value.at(3)));
    EXPECT_TRUE(std::isnan(got.value.at(34)));
    EXPECT_FALSE(std::isnan(got.value.at(4)));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationTest, ::testing::Values(relu, gelu, gelu_tanh, silu));

TEST(GatedActivationTest, MatchesTheFormulaAndItsGradients) {
  for (ActivationFunction kind : {silu, gelu}) {
    for (int64_t n : {1, 7, 33, 130}) {
      const std::vector<Tensor> in = {random_tensor({1, n}, DType::f64, 1, 2.0), random_tensor({1, n}, DType::f64, 2)};
      Tensor expected = Tensor::zeros({1, n}, DType::f64);
      for (int64_t i = 0; i < n; ++i) expected.set(i, reference(kind, in[0].at(i)) * in[1].at(i));
      EXPECT_LT(relative_error(run(gated(kind), in).value, expected), 1e-13);
      check_op(gated(kind), in);
    }
  }
}

TEST(GatedActivationTest, AVarUsedTwiceGetsBothGradients) {
  const Function itself = [](Tape&, const std::vector<Var>& in) {
    return add(in[0], gated_activation(in[0], in[0], ActivationFunction::silu));
  };
  check_op(itself, {random_tensor({3, 11}, DType::f64, 1)});
}

TEST(GatedActivationTest, RefusesOtherFunctionsAndShapes) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var a = tape.leaf(random_tensor({2, 3}, DType::f64, 1));
  const Var b = tape.leaf(random_tensor({3, 2}, DType::f64, 1));
  EXPECT_THROW(gated_activation(a, a, relu), Error);
  EXPECT_THROW(gated_activation(a, a, gelu_tanh), Error);
  EXPECT_THROW(gated_activation(a, b, silu), Error);
}

}  // namespace
}  // namespace ropewalk::testing
