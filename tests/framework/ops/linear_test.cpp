#include "framework/ops/linear.h"

#include <gtest/gtest.h>

#include "framework/gemm.h"
#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

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

TEST(LinearTest, IsTheSameOnEveryInstructionSet) {
  for (int64_t rows : {1, 13, 50}) {
    check_op(with_bias, {random_tensor({rows, 37}, DType::f64, 1), random_tensor({41, 37}, DType::f64, 2),
                         random_tensor({41}, DType::f64, 3)});
  }
}

TEST(LinearTest, SumsOverSeveralBlocksOfDepthAndByTheLibraryAreTheSame) {
  // 400 inputs are two blocks; all extents beyond 768 go to the library.
  for (const auto& [rows, in, out] : {Sizes{5, 400, 9}, Sizes{770, 769, 771}}) {
    const std::vector<Tensor> inputs = {random_tensor({rows, in}, DType::f32, 1),
                                        random_tensor({out, in}, DType::f32, 2), random_tensor({out}, DType::f32, 3),
                                        random_tensor({rows, out}, DType::f32, 4)};
    const Function sum = [](Tape&, const std::vector<Var>& v) { return linear_add(v[0], v[1], v[2], v[3]); };
    // By our own kernels in double, which GemmTest holds to plain sums; those would take too long here.
    const Tensor x = cast(inputs[0], DType::f64);
    const Tensor w = cast(inputs[1], DType::f64);
    Tensor expected = cast(inputs[3], DType::f64);
    own_gemm(Transpose::no, Transpose::yes, rows, out, in, x.data<double>(), in, w.data<double>(), in, true,
             expected.data<double>(), out);
    for (int64_t i = 0; i < expected.elements(); ++i) expected.set(i, expected.at(i) + inputs[2].at(i % out));
    EXPECT_LT(relative_error(run(sum, inputs).value, expected), 1e-5);
  }
}

TEST(LinearTest, RefusesRowsWithoutColumns) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  EXPECT_THROW(linear(tape.leaf(Tensor::zeros({5, 0}, DType::f32)), tape.leaf(Tensor::zeros({3, 0}, DType::f32))),
               Error);
}

Function linear_add_of(double scale) {
  return [scale](Tape&, const std::vector<Var>& in) { return linear_add(in[0], in[1], in[2], in[3], scale); };
}

TEST(LinearAddTest, IsTheSumAndHasItsGradients) {
  for (double scale : {1.0, 1.75}) {
    for (const auto& [rows, in, out] : {Sizes{1, 1, 1}, Sizes{7, 5, 3}, Sizes{13, 17, 33}}) {
      const std::vector<Tensor> inputs = {random_tensor({rows, in}, DType::f64, 1),
                                          random_tensor({out, in}, DType::f64, 2), random_tensor({out}, DType::f64, 3),
                                          random_tensor({rows, out}, DType::f64, 4)};
      const Function apart = [scale = scale](Tape&, const std::vector<Var>& v) {
        return scale_add(v[3], scale, linear(v[0], v[1], v[2]));
      };
      EXPECT_LT(run_error(run(linear_add_of(scale), inputs), run(apart, inputs)), 1e-13);
      check_op(linear_add_of(scale), inputs);
    }
  }
}

TEST(LinearAddTest, AResidualUsedElsewhereGetsAllItsGradients) {
  // The residual is also the input of the product, feeds the next sum, and is added before and after.
  const Function chain = [](Tape&, const std::vector<Var>& in) {
    const Var first = linear_add(in[0], in[1], {}, in[0]);
    const Var second = linear_add(first, in[1], {}, first);
    return add(add(second, first), in[0]);
  };
  check_op(chain, {random_tensor({4, 6}, DType::f64, 1), random_tensor({6, 6}, DType::f64, 2)});
}

TEST(LinearAddTest, RefusesAResidualOfAnotherShape) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 3}, DType::f32, 1));
  const Var w = tape.leaf(random_tensor({4, 3}, DType::f32, 2));
  EXPECT_THROW(linear_add(x, w, {}, x), Error);
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
