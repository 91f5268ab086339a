#include "framework/ops/linear.h"

#include <gtest/gtest.h>

#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

Var with_bias(Tape&, const std::vector<Var>& in) {
  return linear(in[0], in[1], in[2]);
}
Var without_bias(Tape&, const std::vector<Var>& in) {
  return linear(in[0], in[1]);
}

Tensor reference(const Tensor& x, const Tensor& w, const Tensor* b) {
  const int64_t in = w.shape[1];
  const int64_t out = w.shape[0];
  Tensor y = Tensor::zeros(x.shape.with_last(out), DType::f64);
  for (int64_t r = 0; r < x.shape.rows(); ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = b != nullptr ? b->at(o) : 0;
      for (int64_t i = 0; i < in; ++i) sum += x.at(r * in + i) * w.at(o * in + i);
      y.set(r * out + o, sum);
    }
  }
  return y;
}

struct Sizes {
  int64_t rows, in, out;
};

class LinearTest : public ::testing::TestWithParam<Sizes> {};

TEST_P(LinearTest, MatchesAPlainSumInBothPrecisions) {
  const auto [rows, in, out] = GetParam();
  for (DType dtype : {DType::f64, DType::f32}) {
    const std::vector<Tensor> inputs = {random_tensor({2, rows, in}, dtype, 1), random_tensor({out, in}, dtype, 2),
                                        random_tensor({out}, dtype, 3)};
    const double bound = dtype == DType::f64 ? 1e-13 : 1e-5;
    EXPECT_LT(relative_error(run(with_bias, inputs).value, reference(inputs[0], inputs[1], &inputs[2])), bound);
    EXPECT_LT(relative_error(run(without_bias, {inputs[0], inputs[1]}).value, reference(inputs[0], inputs[1], nullptr)),
              bound);
  }
}

TEST_P(LinearTest, GradientsMatchCentralDifferences) {
  const auto [rows, in, out] = GetParam();
  const std::vector<Tensor> inputs = {random_tensor({rows, in}, DType::f64, 1), random_tensor({out, in}, DType::f64, 2),
                                      random_tensor({out}, DType::f64, 3)};
  EXPECT_LT(gradient_error(with_bias, inputs), 1e-9);
  EXPECT_LT(gradient_error(without_bias, {inputs[0], inputs[1]}), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(OddSizes, LinearTest, ::testing::Values(Sizes{1, 1, 1}, Sizes{7, 5, 3}, Sizes{9, 17, 33}));

TEST(LinearTest, AVarUsedTwiceGetsBothGradients) {
  const Function squared = [](Tape&, const std::vector<Var>& in) { return linear(linear(in[0], in[1]), in[1]); };
  EXPECT_LT(gradient_error(squared, {random_tensor({4, 6}, DType::f64, 1), random_tensor({6, 6}, DType::f64, 2)}),
            1e-9);
}

TEST(LinearTest, RefusesAWeightOfAnotherWidth) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 3}, DType::f32, 1));
  const Var w = tape.leaf(random_tensor({4, 5}, DType::f32, 2));
  EXPECT_THROW(linear(x, w), Error);
}

}  // namespace
}  // namespace ropewalk::testing
