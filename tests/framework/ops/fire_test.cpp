#include "framework/ops/fire.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/ops/attention.h"
#include "framework/ops/elementwise.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

Tensor number(double x, DType dtype = DType::f64) {
  Tensor out = Tensor::zeros({1}, dtype);
  out.set(0, x);
  return out;
}

TEST(FireTest, DistancesAreLogarithmic) {
  for (const int64_t first : {-4, -6, 0}) {  // five queries on five keys, three at the end of seven, none behind
    const Function f = [first](Tape&, const std::vector<Var>& in) { return log_distance(in[0], first, 9); };
    const Gradients got = run(f, {number(0.3)});
    ASSERT_TRUE(got.value.shape == Shape({9}));
    for (int64_t n = 0; n < 9; ++n) {
      EXPECT_NEAR(got.value.at(n), std::log(1 + 0.3 * static_cast<double>(std::abs(first + n))), 1e-15);
    }
    EXPECT_LT(gradient_error(f, {number(0.3)}), 1e-9);
    EXPECT_LT(relative_error(run(f, {number(0.3, DType::f32)}).inputs[0], got.inputs[0]), 1e-6);
  }
}

TEST(FireTest, SmallDistancesStayPreciseInSinglePrecision) {
  const Function f = [](Tape&, const std::vector<Var>& in) { return log_distance(in[0], 0, 2); };
  EXPECT_NEAR(run(f, {number(1e-6, DType::f32)}).value.at(1) / 1e-6, 1.0, 1e-5);
}

TEST(FireTest, NormalizersAreThoseOfTheThresholdUpToIt) {
  const std::vector<Tensor> in = {number(0.3), number(0.9)};
  const Function f = [](Tape&, const std::vector<Var>& x) { return log_normalizer(x[0], x[1], 4.0, 7); };
  const Tensor y = run(f, in).value;  // L = 3.6
  for (int64_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(y.at(i), 1 / std::log(1 + 0.3 * std::max(static_cast<double>(i), 3.6)), 1e-15);
  }
  EXPECT_LT(gradient_error(f, in), 1e-9);
  EXPECT_LT(relative_error(run(f, {number(0.3, DType::f32), number(0.9, DType::f32)}).value, y), 1e-6);
}

TEST(FireTest, AThresholdBelowEveryPositionGetsNoGradientFromThem) {
  const Function f = [](Tape&, const std::vector<Var>& x) { return log_normalizer(x[0], x[1], 0.5, 4); };
  const Function first = [](Tape&, const std::vector<Var>& x) { return log_normalizer(x[0], x[1], 0.5, 1); };
  const std::vector<Tensor> in = {number(0.3), number(0.9)};
  // Position 0 alone lies below 0.45. The cotangent of a longer result begins with that of a shorter one.
  EXPECT_DOUBLE_EQ(run(f, in).inputs[1].at(0), run(first, in).inputs[1].at(0));
}

/// Hidden weights and biases, output weights and biases of an MLP of one input.
std::vector<Tensor> mlp(int64_t width, int64_t heads, uint32_t salt = 0) {
  return {random_tensor({width}, DType::f64, salt + 1), random_tensor({width}, DType::f64, salt + 2),
          random_tensor({heads, width}, DType::f64, salt + 3), random_tensor({heads}, DType::f64, salt + 4)};
}

double mlp_at(const std::vector<Tensor>& m, int64_t h, double x) {
  double out = m[3].at(h);
  for (int64_t k = 0; k < m[0].elements(); ++k) {
    out += m[2].at(h * m[0].elements() + k) * std::max(0.0, m[0].at(k) * x + m[1].at(k));
  }
  return out;
}

Var lines_of(const std::vector<Var>& in) {
  return relu_lines(in[0], in[1], in[2], in[3]);
}

double line_at(const Tensor& lines, int64_t heads, int64_t h, double x) {
  const int64_t n = lines.shape[1];
  int64_t line = 0;
  while (line + 1 < n && lines.at(line) <= x) ++line;
  return lines.at((1 + h) * n + line) * x + lines.at((1 + heads + h) * n + line);
}

TEST(FireTest, LinesAreTheMlp) {
  for (const int64_t width : {1, 2, 5, 32}) {
    for (const int64_t heads : {1, 3}) {
      const std::vector<Tensor> in = mlp(width, heads);
      const Tensor lines = run([](Tape&, const std::vector<Var>& x) { return lines_of(x); }, in).value;
      ASSERT_TRUE(lines.shape == Shape({2 * heads + 1, width + 1}));
      for (int64_t h = 0; h < heads; ++h) {
        for (double x = -3; x < 3; x += 0.01) EXPECT_NEAR(line_at(lines, heads, h, x), mlp_at(in, h, x), 1e-13) << x;
      }
    }
  }
}

TEST(FireTest, UnitsThatNoInputSwitchesAreAlwaysOrNeverActive) {
  std::vector<Tensor> in = mlp(5, 2);
  for (const auto& [unit, weight, bias] : {std::tuple{1, 0.0, 0.7}, {2, 0.0, -0.7}, {3, 0.0, 0.0}, {4, 1e-320, 0.4}}) {
    in[0].set(unit, weight);
    in[1].set(unit, bias);
  }
  const Function f = [](Tape&, const std::vector<Var>& x) { return lines_of(x); };
  const Gradients got = run(f, in);
  for (int64_t h = 0; h < 2; ++h) {
    for (double x = -2; x < 2; x += 0.1) EXPECT_NEAR(line_at(got.value, 2, h, x), mlp_at(in, h, x), 1e-13) << x;
  }
  for (const Tensor& gradient : got.inputs) {
    for (int64_t i = 0; i < gradient.elements(); ++i) EXPECT_TRUE(std::isfinite(gradient.at(i)));
  }
}

/// Everything FIRE adds to a score: c, the multiplier of the threshold and the MLP -> one head's attention.
Var fire_attention(const std::vector<Var>& in, bool causal, int64_t queries, int64_t keys) {
  const AttentionOptions options{
      .scale = 0.7,
      .mask = {.causal = causal},
      .offset_origin = keys - 1,
      .distance_bias = {log_distance(in[0], 1 - keys, keys + queries - 1), log_normalizer(in[0], in[1], 3.0, keys),
                        relu_lines(in[2], in[3], in[4], in[5])}};
  return attention(in[6], in[7], in[8], options);
}

TEST(FireTest, AttentionUnderItIsThatOfThePaper) {
  constexpr int64_t kHeads = 2, kKeys = 9;
  for (const int64_t queries : {kKeys, int64_t{2}}) {
    for (const bool causal : {true, false}) {
      std::vector<Tensor> in = {number(0.4), number(1.2)};
      for (Tensor& x : mlp(5, kHeads)) in.push_back(x);
      in.push_back(random_tensor({1, kHeads, queries, 3}, DType::f64, 11));
      in.push_back(random_tensor({1, kHeads, kKeys, 3}, DType::f64, 12));
      in.push_back(random_tensor({1, kHeads, kKeys, 2}, DType::f64, 13));
      const Function f = [&](Tape&, const std::vector<Var>& x) { return fire_attention(x, causal, queries, kKeys); };
      const Tensor y = run(f, in).value;
      const auto psi = [](double x) { return std::log(0.4 * x + 1); };
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t t = 0; t < queries; ++t) {
          const int64_t i = kKeys - queries + t;
          double total = 0;
          double expected[2] = {0, 0};
          for (int64_t j = 0; j < (causal ? i + 1 : kKeys); ++j) {
            double score = 0;
            for (int64_t d = 0; d < 3; ++d) {
              score += in[6].at((h * queries + t) * 3 + d) * in[7].at((h * kKeys + j) * 3 + d);
            }
            const double x = psi(static_cast<double>(std::abs(i - j))) / psi(std::max(static_cast<double>(i), 3.6));
            const double e = std::exp(0.7 * score + mlp_at({in.begin() + 2, in.begin() + 6}, h, x));
            total += e;
            for (int64_t d = 0; d < 2; ++d) expected[d] += e * in[8].at((h * kKeys + j) * 2 + d);
          }
          for (int64_t d = 0; d < 2; ++d) EXPECT_NEAR(y.at((h * queries + t) * 2 + d), expected[d] / total, 1e-13);
        }
      }
      // Steps so small that none goes past a knot.
      EXPECT_LT(gradient_error(f, in, 1e-5), 1e-8) << queries << " queries, causal " << causal;
    }
  }
}

TEST(FireTest, ItsNumbersAddUpWhenTheyServeTwice) {
  std::vector<Tensor> in = {number(0.4), number(1.2)};
  for (Tensor& x : mlp(3, 2)) in.push_back(x);
  for (const uint32_t salt : {11, 12, 13}) in.push_back(random_tensor({1, 2, 5, 3}, DType::f64, salt));
  const Function f = [](Tape&, const std::vector<Var>& x) {
    std::vector<Var> second = x;
    second[6] = fire_attention(x, true, 5, 5);
    return add(second[6], fire_attention(second, true, 5, 5));
  };
  EXPECT_LT(gradient_error(f, in, 1e-5), 1e-8);
}

TEST(FireTest, RefusesPartsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape, DType dtype = DType::f64) {
    return tape.constant(Tensor::zeros(shape, dtype));
  };
  EXPECT_NO_THROW(relu_lines(make({4, 1}), make({4}), make({2, 4}), make({2})));
  EXPECT_THROW(relu_lines(make({4, 2}), make({4}), make({2, 4}), make({2})), Error);
  EXPECT_THROW(relu_lines(make({4}), make({3}), make({2, 4}), make({2})), Error);
  EXPECT_THROW(relu_lines(make({4}), make({4}), make({2, 4}), make({4})), Error);
  EXPECT_THROW(relu_lines(make({4}), make({4}), make({2, 4}), make({2}, DType::f32)), Error);
  EXPECT_THROW(log_distance(make({2}), 0, 3), Error);
  EXPECT_THROW(log_normalizer(make({1}), make({2}), 3.0, 3), Error);
  EXPECT_THROW(log_normalizer(make({1}), make({1}), 0.0, 3), Error);
  EXPECT_THROW(log_normalizer(make({1}), make({1}, DType::f32), 3.0, 3), Error);
}

}  // namespace
}  // namespace ropewalk::testing
