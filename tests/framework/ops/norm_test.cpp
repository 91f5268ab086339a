#include "framework/ops/norm.h"

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
    const std::vector<Tensor> in = inputs(dtype, 5);
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
