#include "framework/ops/norm.h"

#include <utility>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kEps = 1e-3;

Var layer_norm_of(Tape&, const std::vector<Var>& in) {
  return layer_norm(in[0], in[1], in.size() > 2 ? in[2] : Var{}, kEps);
}
Var rms_norm_of(Tape&, const std::vector<Var>& in) {
  return rms_norm(in[0], in[1], kEps);
}

Tensor reference(const Tensor& x, const Tensor& weight, const Tensor* bias, bool centred) {
  const int64_t n = weight.elements();
  Tensor y = Tensor::zeros(x.shape, DType::f64);
  for (int64_t begin = 0; begin < x.elements(); begin += n) {
    double mean = 0;
    for (int64_t i = 0; centred && i < n; ++i) mean += x.at(begin + i) / static_cast<double>(n);
    double variance = 0;
    for (int64_t i = 0; i < n; ++i) variance += std::pow(x.at(begin + i) - mean, 2) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const double normalized = (x.at(begin + i) - mean) / std::sqrt(variance + kEps);
      y.set(begin + i, normalized * weight.at(i) + (bias != nullptr ? bias->at(i) : 0.0));
    }
  }
  return y;
}

class NormTest : public ::testing::TestWithParam<int64_t> {
 protected:
  std::vector<Tensor> inputs(DType dtype, int64_t rows = 3) const {
    return {random_tensor({1, rows, GetParam()}, dtype, 1, 2.0, 0.5), random_tensor({GetParam()}, dtype, 2, 0.5, 1.0),
            random_tensor({GetParam()}, dtype, 3)};
  }
};

TEST_P(NormTest, MatchesTheFormula) {
  for (DType dtype : {DType::f64, DType::f32}) {
    const std::vector<Tensor> in = inputs(dtype, 67);  // several blocks of rows, and some left
    const double bound = dtype == DType::f64 ? 1e-13 : 2e-6;
    EXPECT_LT(relative_error(run(layer_norm_of, in).value, reference(in[0], in[1], &in[2], true)), bound);
    if (GetParam() > 1) {  // without bias a single column is zero
      EXPECT_LT(relative_error(run(layer_norm_of, {in[0], in[1]}).value, reference(in[0], in[1], nullptr, true)),
                bound);
    }
    EXPECT_LT(relative_error(run(rms_norm_of, {in[0], in[1]}).value, reference(in[0], in[1], nullptr, false)), bound);
  }
}

TEST_P(NormTest, GradientsAreRightForAnyWeight) {
  const std::vector<Tensor> in = inputs(DType::f64);
  check_op(layer_norm_of, in);
  if (GetParam() > 1) check_op(layer_norm_of, {in[0], in[1]});
  check_op(rms_norm_of, {in[0], in[1]});
}

INSTANTIATE_TEST_SUITE_P(OddSizes, NormTest, ::testing::Values(1, 2, 7, 33, 130));

// E[x^2] - E[x]^2 would keep no more than two digits of these variances.
TEST_P(NormTest, RowsWithALargeMeanKeepTheirDigits) {
  if (GetParam() < 2) return;
  for_each_instruction_set([&](int64_t target) {
    SCOPED_TRACE(hwy::TargetName(target));
    std::vector<Tensor> in = inputs(DType::f64, 5);
    in[0] = random_tensor({5, GetParam()}, DType::f64, 1, 1.0, 1000.0);
    EXPECT_LT(single_precision_error(layer_norm_of, in), 1e-3);
  });
}

/// Value and gradients of rows [begin, end) of x under rows of the cotangent; `norm` is one of the two above.
Gradients run_rows(const Function& norm, const std::vector<Tensor>& in, const Tensor& cotangent, int64_t begin,
                   int64_t end) {
  const int64_t n = in[0].shape[-1];
  const auto rows = [&](const Tensor& from) {
    Tensor out = Tensor::zeros({end - begin, n}, from.dtype);
    for (int64_t i = 0; i < out.elements(); ++i) out.set(i, from.at(begin * n + i));
    return out;
  };
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::vector<Var> leaves = {tape.leaf(rows(in[0]))};
  for (std::size_t k = 1; k < in.size(); ++k) leaves.push_back(tape.leaf(in[k]));
  const Var y = norm(tape, leaves);
  Gradients out{.value = copy(y.value())};
  tape.seed(y, rows(cotangent));
  tape.backward();
  for (const Var leaf : leaves) out.inputs.push_back(copy(tape.gradient_of(leaf)));
  return out;
}

TEST_P(NormTest, ARowComesOutTheSameInAnyBatch) {
  constexpr int64_t kRows = 67;
  const int64_t n = GetParam();
  const std::vector<Tensor> in = {random_tensor({kRows, n}, DType::f32, 1, 2.0, 0.5),
                                  random_tensor({n}, DType::f32, 2, 0.5, 1.0), random_tensor({n}, DType::f32, 3)};
  const Tensor cotangent = random_tensor({kRows, n}, DType::f32, 4);
  for (const auto& [norm, operands] : {std::pair{Function(layer_norm_of), in},
                                       {Function(rms_norm_of), std::vector<Tensor>(in.begin(), in.end() - 1)}}) {
    for_each_instruction_set([&, norm = norm, operands = operands](int64_t target) {
      SCOPED_TRACE(hwy::TargetName(target));
      const Gradients all = run_rows(norm, operands, cotangent, 0, kRows);
      std::vector<Tensor> sums;
      for (std::size_t k = 1; k < operands.size(); ++k) sums.push_back(Tensor::zeros({n}, DType::f64));
      for (int64_t row = 0; row < kRows; ++row) {
        const Gradients one = run_rows(norm, operands, cotangent, row, row + 1);
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(one.value.at(i), all.value.at(row * n + i)) << row;
          ASSERT_EQ(one.inputs[0].at(i), all.inputs[0].at(row * n + i)) << row;
        }
        for (std::size_t k = 0; k < sums.size(); ++k) {
          for (int64_t i = 0; i < n; ++i) sums[k].set(i, sums[k].at(i) + one.inputs[k + 1].at(i));
        }
      }
      for (std::size_t k = 0; k < sums.size(); ++k) EXPECT_LT(relative_error(all.inputs[k + 1], sums[k]), 2e-6);
    });
  }
}

TEST(NormTest, GradientsThatNobodyWantsChangeNoOther) {
  const std::vector<Tensor> in = {random_tensor({5, 7}, DType::f32, 1), random_tensor({7}, DType::f32, 2),
                                  random_tensor({7}, DType::f32, 3)};
  const Gradients all = run(layer_norm_of, in);
  for (std::size_t wanted = 0; wanted < in.size(); ++wanted) {
    const Function norm = [&](Tape& tape, const std::vector<Var>& leaf) {
      std::vector<Var> operands;
      for (std::size_t k = 0; k < in.size(); ++k) operands.push_back(k == wanted ? leaf[0] : tape.constant(in[k]));
      return layer_norm_of(tape, operands);
    };
    const Tensor alone = run(norm, {in[wanted]}).inputs[0];
    for (int64_t i = 0; i < alone.elements(); ++i) EXPECT_EQ(alone.at(i), all.inputs[wanted].at(i)) << wanted;
  }
}

TEST(NormTest, OneTokenIsEnough) {
  check_op(layer_norm_of, {random_tensor({1, 7}, DType::f64, 1), random_tensor({7}, DType::f64, 2),
                           random_tensor({7}, DType::f64, 3)});
}

TEST(NormTest, RmsNormOfHeadsActsOnEachHead) {
  const Tensor x = random_tensor({2, 3, 4 * 5}, DType::f64, 1);
  const Tensor weight = random_tensor({5}, DType::f64, 2);
  EXPECT_LT(relative_error(run(rms_norm_of, {x, weight}).value, reference(x, weight, nullptr, false)), 1e-13);
  check_op(rms_norm_of, {x, weight});
}

TEST(NormTest, AVarUsedTwiceGetsBothGradients) {
  const Function residual = [](Tape& t, const std::vector<Var>& in) {
    return add(in[0], add(layer_norm_of(t, in), rms_norm(in[0], in[1], kEps)));
  };
  check_op(residual, {random_tensor({3, 7}, DType::f64, 1), random_tensor({7}, DType::f64, 2),
                      random_tensor({7}, DType::f64, 3)});
  const Function all_the_same = [](Tape&, const std::vector<Var>& in) { return layer_norm(in[0], in[0], in[0], kEps); };
  check_op(all_the_same, {random_tensor({7}, DType::f64, 1)});
}

TEST(NormTest, EpsStandsInsideTheRoot) {
  Tensor x = Tensor::zeros({1, 2}, DType::f64);
  x.set(0, 1e-2);
  x.set(1, -1e-2);
  Tensor one = Tensor::zeros({2}, DType::f64);
  one.set(0, 1);
  one.set(1, 1);
  const double expected = 1e-2 / std::sqrt(1e-4 + kEps);
  EXPECT_NEAR(run(layer_norm_of, {x, one}).value.at(0), expected, 1e-14);
  EXPECT_NEAR(run(rms_norm_of, {x, one}).value.at(0), expected, 1e-14);
}

TEST(NormTest, RefusesShapesThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 6}, DType::f64, 1));
  const Var five = tape.leaf(random_tensor({5}, DType::f64, 2));
  const Var three = tape.leaf(random_tensor({3}, DType::f64, 2));
  const Var six = tape.leaf(random_tensor({6}, DType::f64, 2));
  const Var single = tape.leaf(random_tensor({6}, DType::f32, 2));
  EXPECT_THROW(layer_norm(x, five, {}, kEps), Error);
  EXPECT_THROW(layer_norm(x, three, {}, kEps), Error);
  EXPECT_THROW(layer_norm(x, six, five, kEps), Error);
  EXPECT_THROW(layer_norm(x, single, {}, kEps), Error);
  EXPECT_THROW(rms_norm(x, five, kEps), Error);
  EXPECT_THROW(rms_norm(x, six, -1.0), Error);
  EXPECT_NO_THROW(rms_norm(x, three, kEps));
}

}  // namespace
}  // namespace ropewalk::testing
