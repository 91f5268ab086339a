#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/norm.h"
#include "tests/framework/gradient_check.h"

// Ops with planted bugs: the gradient check must see every one of them.

namespace ropewalk::testing {
namespace {

constexpr double kEps = 1e-5;

/// Layer normalization of rows of x, whose backward leaves the weight outside the means if `outside`.
Var layer_norm_by_hand(Var x, Var weight, bool outside) {
  const int64_t n = weight.shape()[0];
  const int64_t rows = x.shape().rows();
  const Tensor y = copy(layer_norm(x, weight, {}, kEps).value());
  Tensor held = x.tape->allocate(x.shape(), DType::f64);
  for (int64_t i = 0; i < y.elements(); ++i) held.set(i, y.at(i));
  return x.tape->record("layer_norm_by_hand", held, {x}, [=](Tape& t, Var result) {
    const double* dy = t.gradient<double>(result);
    double* dx = t.gradient_accumulator<double>(x);
    for (int64_t r = 0; r < rows; ++r) {
      const double* row = x.value().data<double>() + r * n;
      const double* w = weight.value().data<double>();
      double mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
      for (int64_t i = 0; i < n; ++i) mean += row[i] / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i) variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(n);
      const double factor = 1 / std::sqrt(variance + kEps);
      for (int64_t i = 0; i < n; ++i) {
        const double g = dy[r * n + i] * (outside ? 1.0 : w[i]);
        mean_g += g / static_cast<double>(n);
        mean_gx += g * (row[i] - mean) * factor / static_cast<double>(n);
      }
      for (int64_t i = 0; i < n; ++i) {
        const double g = dy[r * n + i] * (outside ? 1.0 : w[i]);
        const double d = factor * (g - mean_g - (row[i] - mean) * factor * mean_gx);
        dx[r * n + i] += d * (outside ? w[i] : 1.0);
      }
    }
  });
}

Function layer_norm_with(bool outside, bool constant_weight) {
  return [=](Tape& tape, const std::vector<Var>& in) {
    Tensor weight = random_tensor({7}, DType::f64, 2, constant_weight ? 0.0 : 1.0, 1.0);
    return layer_norm_by_hand(in[0], tape.constant(weight), outside);
  };
}

/// y = s x with dx += told dy.
Function scale_telling(double s, double told) {
  return [=](Tape& tape, const std::vector<Var>& in) {
    const Var x = in[0];
    Tensor y = tape.allocate(x.shape(), DType::f64);
    for (int64_t i = 0; i < y.elements(); ++i) y.set(i, s * x.value().at(i));
    return tape.record("scale_telling", y, {x}, [=](Tape& t, Var result) {
      double* dx = t.gradient_accumulator<double>(x);
      for (int64_t i = 0; i < x.value().elements(); ++i) dx[i] += told * t.gradient<double>(result)[i];
    });
  };
}

/// y = 2 x whose backward stores although something was there.
Var double_storing(Var x) {
  const Tensor y = x.tape->allocate(x.shape(), DType::f64);
  for (int64_t i = 0; i < y.elements(); ++i) y.set(i, 2 * x.value().at(i));
  return x.tape->record("double_storing", y, {x}, [=](Tape& t, Var result) {
    double* dx = t.gradient_accumulator<double>(x);
    for (int64_t i = 0; i < x.value().elements(); ++i) dx[i] = 2 * t.gradient<double>(result)[i];
  });
}

const std::vector<Tensor>& inputs() {
  static const std::vector<Tensor> in = {random_tensor({3, 7}, DType::f64, 1)};
  return in;
}

TEST(GradientCheckTest, PassesWhatIsRight) {
  EXPECT_LT(gradient_error(layer_norm_with(false, false), inputs()), 1e-8);
  EXPECT_LT(gradient_error(scale_telling(2.0, 2.0), inputs()), 1e-9);
}

TEST(GradientCheckTest, SeesAWeightOutsideTheMeans) {
  EXPECT_GT(gradient_error(layer_norm_with(true, false), inputs()), 1e-3);
  // The reason for random weights: with a constant one the bug does not show.
  EXPECT_LT(gradient_error(layer_norm_with(true, true), inputs()), 1e-8);
}

TEST(GradientCheckTest, SeesAMissingFactor) {
  EXPECT_GT(gradient_error(scale_telling(1.01, 1.0), inputs()), 1e-3);
}

TEST(GradientCheckTest, SeesABackwardThatIsNeverCalled) {
  const Function lost = [](Tape& tape, const std::vector<Var>& in) {
    const Tensor y = tape.allocate(in[0].shape(), DType::f64);
    for (int64_t i = 0; i < y.elements(); ++i) y.set(i, 2 * in[0].value().at(i));
    return tape.record("lost", y, {}, [](Tape&, Var) {});
  };
  EXPECT_GT(gradient_error(lost, inputs()), 1e-3);
}

TEST(GradientCheckTest, SeesAStoreWhereAnAdditionIsDue) {
  const Function twice = [](Tape&, const std::vector<Var>& in) { return add(double_storing(in[0]), in[0]); };
  EXPECT_GT(gradient_error(twice, inputs()), 1e-3);
}

TEST(GradientCheckTest, SeesANan) {
  EXPECT_GT(gradient_error(scale_telling(2.0, NAN), inputs()), 1e-3);
}

}  // namespace
}  // namespace ropewalk::testing
