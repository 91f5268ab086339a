#include "framework/ops/index_scores.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

struct Sizes {
  int64_t B, T, S, heads, d;
};

std::vector<Tensor> operands(const Sizes& z) {
  return {random_tensor({z.B, z.T, z.heads * z.d}, DType::f64, 1), random_tensor({z.B, z.S, z.d}, DType::f64, 2),
          random_tensor({z.B, z.T, z.heads}, DType::f64, 3)};
}

Var scores_of(Tape&, const std::vector<Var>& in) {
  return index_scores(in[0], in[1], in[2]);
}

/// By the formula, with the gradients under dy. `margin` is the least |q . k|: below it a difference would cross the
/// kink of relu.
Gradients reference(const Sizes& z, const std::vector<Tensor>& in, const Tensor& dy, double& margin) {
  Gradients out{.value = Tensor::zeros({z.B, z.T, z.S}, DType::f64)};
  for (const Tensor& x : in) out.inputs.push_back(Tensor::zeros(x.shape, DType::f64));
  const auto add_to = [](const Tensor& x, int64_t i, double value) { x.set(i, x.at(i) + value); };
  margin = INFINITY;
  for (int64_t b = 0; b < z.B; ++b) {
    for (int64_t t = 0; t < z.T; ++t) {
      for (int64_t s = 0; s < z.S; ++s) {
        const int64_t at = (b * z.T + t) * z.S + s;
        for (int64_t h = 0; h < z.heads; ++h) {
          const int64_t q = ((b * z.T + t) * z.heads + h) * z.d;
          const int64_t k = (b * z.S + s) * z.d;
          const int64_t w = (b * z.T + t) * z.heads + h;
          double product = 0;
          for (int64_t c = 0; c < z.d; ++c) product += in[0].at(q + c) * in[1].at(k + c);
          margin = std::min(margin, std::abs(product));
          if (product <= 0) continue;
          add_to(out.value, at, in[2].at(w) * product);
          add_to(out.inputs[2], w, dy.at(at) * product);
          for (int64_t c = 0; c < z.d; ++c) {
            add_to(out.inputs[0], q + c, dy.at(at) * in[2].at(w) * in[1].at(k + c));
            add_to(out.inputs[1], k + c, dy.at(at) * in[2].at(w) * in[0].at(q + c));
          }
        }
      }
    }
  }
  return out;
}

TEST(IndexScoresTest, MatchesTheFormulaAndItsGradients) {
  for (const Sizes& z : {Sizes{1, 1, 1, 1, 1},
                         {2, 9, 9, 3, 8},
                         {1, 1, 13, 4, 5},
                         {2, 5, 7, 1, 3},
                         {1, 17, 20, 2, 33},
                         {1, 20, 300, 5, 4},
                         {1, 3, 130, 70, 2}}) {
    const std::vector<Tensor> in = operands(z);
    const Tensor dy = random_tensor({z.B, z.T, z.S}, DType::f64, 99);
    double margin = 0;
    const Gradients expected = reference(z, in, dy, margin);
    EXPECT_LT(run_error(run(scores_of, in), expected), 1e-13) << z.T << " of " << z.S;
    ASSERT_GT(margin, 1e-5);
    EXPECT_LT(single_precision_error(scores_of, in), 2e-6);
    EXPECT_LT(spread_over_instruction_sets(scores_of, in), 1e-13);
  }
}

TEST(IndexScoresTest, GradientsAreThoseOfDifferences) {
  const Sizes z{2, 5, 7, 3, 4};
  const std::vector<Tensor> in = operands(z);
  double margin = 0;
  reference(z, in, random_tensor({z.B, z.T, z.S}, DType::f64, 99), margin);
  ASSERT_GT(margin, 1e-3) << "a difference would cross the kink of relu";
  // Between the kinks the scores are linear in each operand, so any step will do.
  EXPECT_LT(gradient_error(scores_of, in, 1e-5), 1e-8);
  const Function twice = [](Tape&, const std::vector<Var>& x) {
    return add(index_scores(x[0], x[1], x[2]), index_scores(x[0], x[1], x[2]));
  };
  EXPECT_LT(gradient_error(twice, in, 1e-5), 1e-8);
}

TEST(IndexScoresTest, AProductOfZeroPassesNoGradient) {
  // As torch's relu has it.
  const std::vector<Tensor> in = {Tensor::zeros({1, 2, 6}, DType::f64), random_tensor({1, 4, 3}, DType::f64, 1),
                                  random_tensor({1, 2, 2}, DType::f64, 2)};
  for (const Tensor& gradient : run(scores_of, in).inputs) {
    for (int64_t i = 0; i < gradient.elements(); ++i) EXPECT_EQ(gradient.at(i), 0.0);
  }
}

TEST(IndexScoresTest, ANanShowsInTheRowsThatReadIt) {
  const Sizes z{1, 4, 5, 2, 3};
  for (std::size_t operand = 0; operand < 3; ++operand) {
    std::vector<Tensor> in = operands(z);
    in[operand].set(2 * in[operand].shape[-1], NAN);  // of row 2
    const Tensor y = run(scores_of, in).value;
    for (int64_t t = 0; t < z.T; ++t) {
      for (int64_t s = 0; s < z.S; ++s) {
        // A weight that is NaN makes one of whatever it multiplies.
        EXPECT_EQ(std::isnan(y.at(t * z.S + s)), (operand == 1 ? s : t) == 2) << operand << ": " << t << ", " << s;
      }
    }
  }
}

TEST(IndexScoresTest, AScoreDoesNotDependOnWhatIsComputedWithIt) {
  // To the bit: a query decoded alone selects what it selected in a full pass.
  const Sizes z{1, 37, 300, 3, 20};
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<Tensor> in;
    for (const Tensor& x : operands(z)) in.push_back(cast(x, dtype));
    const Tensor all = run(scores_of, in).value;
    for (int64_t t = 0; t < z.T; t += 5) {
      for (const int64_t keys : {int64_t{1}, int64_t{129}, z.S}) {
        const std::array<int64_t, 3> first{t * z.heads * z.d, 0, t * z.heads};
        const std::vector<Tensor> one = {Tensor::zeros({1, 1, z.heads * z.d}, dtype),
                                         Tensor::zeros({1, keys, z.d}, dtype), Tensor::zeros({1, 1, z.heads}, dtype)};
        for (std::size_t k = 0; k < 3; ++k) {
          for (int64_t i = 0; i < one[k].elements(); ++i) one[k].set(i, in[k].at(first[k] + i));
        }
        const Tensor alone = run(scores_of, one).value;
        for (int64_t s = 0; s < keys; ++s) ASSERT_EQ(alone.at(s), all.at(t * z.S + s));
      }
    }
  }
}

TEST(IndexScoresTest, RefusesOperandsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape, DType dtype = DType::f64) {
    return tape.constant(Tensor::zeros(shape, dtype));
  };
  const Var q = make({1, 3, 8});
  const Var k = make({1, 3, 4});
  const Var w = make({1, 3, 2});
  EXPECT_NO_THROW(index_scores(q, k, w));
  EXPECT_THROW(index_scores(make({1, 3, 9}), k, w), Error);
  EXPECT_THROW(index_scores(q, make({1, 3, 5}), w), Error);
  EXPECT_THROW(index_scores(q, make({2, 3, 4}), w), Error);
  EXPECT_THROW(index_scores(q, make({1, 2, 4}), w), Error);
  EXPECT_THROW(index_scores(q, k, make({1, 4, 2})), Error);
  EXPECT_THROW(index_scores(q, k, make({3, 2})), Error);
  EXPECT_THROW(index_scores(q, k, make({1, 3, 2}, DType::f32)), Error);
  EXPECT_THROW(index_scores(q, make({1, 3, 4}, DType::f32), w), Error);
}

}  // namespace
}  // namespace ropewalk::testing
