#include "framework/ops/elementwise.h"

#include <gtest/gtest.h>

#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

Var add_of(Tape&, const std::vector<Var>& in) {
  return add(in[0], in[1]);
}
Var scale_add_of(Tape&, const std::vector<Var>& in) {
  return scale_add(in[0], 1.7, in[1]);
}
Var scale_of(Tape&, const std::vector<Var>& in) {
  return scale(in[0], -2.5);
}

TEST(ElementwiseTest, MatchesTheFormulasAndTheirGradients) {
  for (int64_t n : {1, 7, 33, 130}) {
    const std::vector<Tensor> in = {random_tensor({1, n}, DType::f64, 1), random_tensor({1, n}, DType::f64, 2)};
    const Tensor sum = run(add_of, in).value;
    const Tensor scaled_sum = run(scale_add_of, in).value;
    const Tensor scaled = run(scale_of, {in[0]}).value;
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(sum.at(i), in[0].at(i) + in[1].at(i));
      EXPECT_NEAR(scaled_sum.at(i), 1.7 * in[0].at(i) + in[1].at(i), 1e-14);
      EXPECT_EQ(scaled.at(i), -2.5 * in[0].at(i));
    }
    check_op(add_of, in);
    check_op(scale_add_of, in);
    check_op(scale_of, {in[0]});
  }
}

TEST(ElementwiseTest, AVarUsedTwiceGetsBothGradients) {
  const Function f = [](Tape&, const std::vector<Var>& in) {
    return add(scale_add(in[0], 3.0, in[0]), scale(add(in[0], in[0]), 0.5));
  };
  const Gradients got = run(f, {random_tensor({2, 5}, DType::f64, 1)});
  const Tensor cotangent = random_tensor({2, 5}, DType::f64, 99);
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(got.inputs[0].at(i), 5 * cotangent.at(i), 1e-14);
}

TEST(ElementwiseTest, RefusesOtherShapesAndFormats) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var a = tape.leaf(random_tensor({2, 3}, DType::f64, 1));
  EXPECT_THROW(add(a, tape.leaf(random_tensor({3}, DType::f64, 1))), Error);
  EXPECT_THROW(scale_add(a, 2.0, tape.leaf(random_tensor({2, 3}, DType::f32, 1))), Error);
}

}  // namespace
}  // namespace ropewalk::testing
