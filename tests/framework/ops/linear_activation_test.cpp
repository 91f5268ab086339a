#include "framework/ops/linear_activation.h"

#include <gtest/gtest.h>

#include "framework/ops/linear.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

using enum ActivationFunction;

struct Sizes {
  int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {7, 5, 3}, {13, 17, 35}, {100, 3, 18}, {3, 401, 5}};

class LinearActivationTest : public ::testing::TestWithParam<ActivationFunction> {};

TEST_P(LinearActivationTest, IsTheActivationOfTheProductAndHasItsGradients) {
  const ActivationFunction kind = GetParam();
  for (const bool bias : {false, true}) {
    const Function fused = [=](Tape&, const std::vector<Var>& in) {
      return linear_activation(in[0], in[1], bias ? in[2] : Var{}, kind);
    };
    const Function apart = [=](Tape&, const std::vector<Var>& in) {
      return activation(linear(in[0], in[1], bias ? in[2] : Var{}), kind);
    };
    for (const auto& [rows, in, out] : kSizes) {
      std::vector<Tensor> inputs = {random_tensor({rows, in}, DType::f64, 11),
                                    random_tensor({out, in}, DType::f64, 12)};
      if (bias) inputs.push_back(random_tensor({out}, DType::f64, 13));
      EXPECT_LT(run_error(run(fused, inputs), run(apart, inputs)), 1e-13);
      EXPECT_LT(spread_over_instruction_sets(fused, inputs), 1e-12);
      // Differences across the kink of relu mean nothing.
      if (kind != relu) check_op(fused, inputs, 5e-9, 4e-6);
    }
  }
}

TEST_P(LinearActivationTest, KeepsARetainedGradient) {
  // The backward pass works in the memory of the result's gradient, unless that is to be kept.
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({3, 4}, DType::f64, 1));
  const Var w = tape.leaf(random_tensor({5, 4}, DType::f64, 2));
  const Var y = linear_activation(x, w, {}, GetParam());
  tape.retain_gradient(y);
  const Tensor cotangent = random_tensor({3, 5}, DType::f64, 3);
  tape.seed(y, cotangent);
  tape.backward();
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(tape.gradient_of(y).at(i), cotangent.at(i));
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinearActivationTest, ::testing::Values(relu, gelu, gelu_tanh, silu));

TEST(GatedLinearTest, IsTheGatedProductAndHasItsGradients) {
  for (ActivationFunction kind : {silu, gelu}) {
    const Function fused = [=](Tape&, const std::vector<Var>& in) {
      return gated_linear(in[0], in[1], in[2], in[3], in[4], kind);
    };
    const Function apart = [=](Tape&, const std::vector<Var>& in) {
      return gated_activation(linear(in[0], in[1], in[2]), linear(in[0], in[3], in[4]), kind);
    };
    for (const auto& [rows, in, out] : kSizes) {
      const std::vector<Tensor> inputs = {random_tensor({rows, in}, DType::f64, 1),
                                          random_tensor({out, in}, DType::f64, 2), random_tensor({out}, DType::f64, 3),
                                          random_tensor({out, in}, DType::f64, 4), random_tensor({out}, DType::f64, 5)};
      EXPECT_LT(run_error(run(fused, inputs), run(apart, inputs)), 1e-13);
      check_op(fused, inputs, 5e-9, 4e-6);
    }
  }
}

TEST(GatedLinearTest, OneWeightForBothGetsBothGradients) {
  const Function tied = [](Tape&, const std::vector<Var>& in) {
    return gated_linear(in[0], in[1], {}, in[1], {}, silu);
  };
  check_op(tied, {random_tensor({3, 4}, DType::f64, 1), random_tensor({6, 4}, DType::f64, 2)}, 5e-9, 4e-6);
}

TEST(GatedLinearTest, RefusesOtherFunctionsAndShapes) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 3}, DType::f64, 1));
  const Var w = tape.leaf(random_tensor({4, 3}, DType::f64, 1));
  const Var other = tape.leaf(random_tensor({5, 3}, DType::f64, 1));
  EXPECT_THROW(gated_linear(x, w, {}, w, {}, relu), Error);
  EXPECT_THROW(gated_linear(x, w, {}, other, {}, silu), Error);
}

}  // namespace
}  // namespace ropewalk::testing
