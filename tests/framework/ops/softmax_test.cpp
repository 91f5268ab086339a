#include "framework/ops/softmax.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

Var softmax_of(Tape&, const std::vector<Var>& in) {
  return softmax(in[0]);
}

TEST(SoftmaxTest, MatchesTheFormulaAndItsGradients) {
  for (int64_t n : {2, 7, 33, 130}) {
    const Tensor x = random_tensor({1, 3, n}, DType::f64, 1, 2.0);
    Tensor expected = Tensor::zeros(x.shape, DType::f64);
    for (int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(x.at(r * n + i));
      for (int64_t i = 0; i < n; ++i) expected.set(r * n + i, std::exp(x.at(r * n + i)) / sum);
    }
    EXPECT_LT(relative_error(run(softmax_of, {x}).value, expected), 1e-13);
    check_op(softmax_of, {x}, 5e-9);
  }
}

TEST(SoftmaxTest, OneColumnIsAlwaysOne) {
  const Gradients got = run(softmax_of, {random_tensor({4, 1}, DType::f32, 1)});
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got.value.at(i), 1.0);
    EXPECT_EQ(got.inputs[0].at(i), 0.0);
  }
}

TEST(SoftmaxTest, LargeNumbersDoNotOverflow) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = Tensor::zeros({1, 19}, dtype);
    for (int64_t i = 0; i < 19; ++i) x.set(i, i == 7 ? 3e4 : -3e4);
    const Tensor y = run(softmax_of, {x}).value;
    for (int64_t i = 0; i < 19; ++i) EXPECT_EQ(y.at(i), i == 7 ? 1.0 : 0.0);
  }
}

TEST(SoftmaxTest, TheGradientOfANearlyOneHotRowKeepsItsDigits) {
  // The rows leave 1e-4 and 1e-6 beside the greatest, whose gradient is a difference of nearly equal numbers.
  for (const double gap : {9.0, 14.0}) {
    const Tensor x = random_tensor({4, 23}, DType::f32, 1);
    for (int64_t r = 0; r < 4; ++r) x.set(r * 23 + 5 * r, 4 + gap);
    const Gradients got = run(softmax_of, {x});
    const Gradients expected = run(softmax_of, {cast(x, DType::f64)});
    EXPECT_LT(relative_error(got.inputs[0], expected.inputs[0]), 3e-6) << gap;
  }
}

TEST(SoftmaxTest, ANanTaintsItsRowAndNoOther) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (int64_t where : {0, 5, 18}) {
      Tensor x = random_tensor({2, 19}, dtype, 1);
      x.set(where, NAN);
      const Tensor y = run(softmax_of, {x}).value;
      for (int64_t i = 0; i < 38; ++i) EXPECT_EQ(std::isnan(y.at(i)), i < 19);
    }
  }
}

TEST(SoftmaxTest, AVarUsedTwiceGetsBothGradients) {
  const Function twice = [](Tape&, const std::vector<Var>& in) { return add(in[0], softmax(in[0])); };
  check_op(twice, {random_tensor({2, 9}, DType::f64, 1)});
}

TEST(SoftmaxTest, RefusesAnEmptyRow) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  EXPECT_THROW(softmax(tape.leaf(Tensor::zeros({3, 0}, DType::f32))), Error);
}

}  // namespace
}  // namespace ropewalk::testing
