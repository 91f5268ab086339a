#include "layers/positions/xpos.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "framework/ops/attention.h"
#include "framework/ops/rope.h"
#include "layers/positions/scheme.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

constexpr int64_t kWidth = 8;

std::unique_ptr<PositionScheme> scheme(const std::map<std::string, PositionValue>& options, DType dtype) {
  PositionConfig config = default_position_config();
  config.encoding = "xpos";
  for (const auto& [key, value] : options) config.options[key] = value;
  return make_position_scheme(config, {.n_heads = 1, .d_model = kWidth, .d_head = kWidth, .dtype = dtype});
}

/// The same row of `kWidth` columns at every position, turned as queries or keys.
Tensor turned(const PositionScheme& s, int64_t positions, uint32_t salt, RotarySide side, DType dtype) {
  const Tensor row = random_tensor({kWidth}, DType::f64, salt);
  Tensor x = Tensor::zeros({1, 1, positions, kWidth}, dtype);
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, row.at(i % kWidth));
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  return copy(rope(tape.constant(x), *s.rotation(), side).value());
}

double product(const Tensor& a, int64_t i, const Tensor& b, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < kWidth; ++c) sum += a.at(i * kWidth + c) * b.at(j * kWidth + c);
  return sum;
}

/// The score of a query and a key so far apart, as the paper writes it.
double formula(int64_t offset, double gamma, double scale_base) {
  const Tensor q = random_tensor({kWidth}, DType::f64, 1);
  const Tensor k = random_tensor({kWidth}, DType::f64, 2);
  double sum = 0;
  for (int64_t m = 0; m < kWidth / 2; ++m) {
    const double theta = std::pow(10000.0, -2.0 * static_cast<double>(m) / kWidth);
    const double zeta = (2.0 * static_cast<double>(m) / kWidth + gamma) / (1 + gamma);
    const double angle = static_cast<double>(offset) * theta;
    const double dot = q.at(2 * m) * k.at(2 * m) + q.at(2 * m + 1) * k.at(2 * m + 1);
    const double cross = q.at(2 * m) * k.at(2 * m + 1) - q.at(2 * m + 1) * k.at(2 * m);
    sum += std::pow(zeta, static_cast<double>(offset) / scale_base) * (dot * std::cos(angle) + cross * std::sin(angle));
  }
  return sum;
}

TEST(XposTest, RatesAreThoseOfThePublishedCode) {
  // (2m + 0.4 d) / (1.4 d), torchscale.
  const std::vector<double> rates = xpos_rates(8, 0.4, 512);
  ASSERT_EQ(rates.size(), 4u);
  const double zeta[] = {3.2 / 11.2, 5.2 / 11.2, 7.2 / 11.2, 9.2 / 11.2};
  for (std::size_t m = 0; m < 4; ++m) EXPECT_NEAR(std::exp(512 * rates[m]), zeta[m], 1e-14);
}

TEST(XposTest, ScoresDependOnTheOffsetAloneAndFollowTheFormula) {
  for (const auto& [gamma, base] : {std::pair{0.4, 512.0}, {0.1, 20.0}}) {
    const auto s = scheme({{"xpos_gamma", gamma}, {"xpos_scale_base", base}}, DType::f64);
    for (const int64_t length : {5, 64, 301}) {
      s->prepare(length);
      const Tensor q = turned(*s, length, 1, RotarySide::queries, DType::f64);
      const Tensor k = turned(*s, length, 2, RotarySide::keys, DType::f64);
      for (int64_t i = 0; i < length; i += 3) {
        for (int64_t j = 0; j <= i; j += 2) EXPECT_NEAR(product(q, i, k, j), formula(i - j, gamma, base), 1e-10);
      }
    }
  }
}

TEST(XposTest, StaysExactInSinglePrecisionUpToItsGreatestLength) {
  const auto s = scheme({}, DType::f32);
  const int64_t length = s->greatest_length();
  EXPECT_GT(length, 16384);
  s->prepare(length);
  const Tensor q = turned(*s, length, 1, RotarySide::queries, DType::f32);
  const Tensor k = turned(*s, length, 2, RotarySide::keys, DType::f32);
  for (const int64_t offset : {0, 1, 100, 2000}) {
    for (int64_t j = 0; j + offset < length; j += 997) {
      ASSERT_NEAR(product(q, j + offset, k, j), formula(offset, 0.4, 512), 1e-4) << offset << " at " << j;
    }
  }
  // What a mask hides is finite too: the last key under the first query.
  EXPECT_TRUE(std::isfinite(static_cast<float>(product(q, 0, k, length - 1))));
}

TEST(XposTest, RefusesSequencesBeyondItsRangeAndSaysWhatToChange) {
  const auto s = scheme({{"xpos_scale_base", 1.0}}, DType::f32);
  const int64_t most = s->greatest_length();
  EXPECT_NO_THROW(s->prepare(most));
  try {
    s->prepare(most + 1);
    FAIL() << "a sequence beyond the range was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("position.xpos_scale_base"), std::string::npos) << error.what();
  }
  EXPECT_GT(scheme({{"xpos_scale_base", 1.0}}, DType::f64)->greatest_length(), 7 * most);
}

TEST(XposTest, WithoutFadingItIsRope) {
  const auto s = scheme({{"xpos_scale_base", 1e12}}, DType::f64);
  PositionConfig config = default_position_config();
  const auto plain =
      make_position_scheme(config, {.n_heads = 1, .d_model = kWidth, .d_head = kWidth, .dtype = DType::f64});
  s->prepare(20);
  plain->prepare(20);
  for (int64_t i = 0; i < 80; ++i) {
    EXPECT_NEAR(s->rotation()->cos.at(i), plain->rotation()->cos.at(i), 1e-9);
    EXPECT_NEAR(s->rotation()->key_sin.at(i), plain->rotation()->sin.at(i), 1e-9);
  }
}

TEST(XposTest, AttentionTurnsQueriesAndKeysEachByTheirOwn) {
  const auto s = scheme({{"xpos_scale_base", 4.0}}, DType::f64);
  s->prepare(6);
  std::vector<Tensor> in;
  for (uint32_t salt = 1; salt < 4; ++salt) in.push_back(random_tensor({1, 2, 6, kWidth}, DType::f64, salt));
  const Function fused = [&](Tape&, const std::vector<Var>& v) {
    return attention(v[0], v[1], v[2], {.scale = 0.3, .rotary = s->rotation()});
  };
  const Function apart = [&](Tape&, const std::vector<Var>& v) {
    const RotaryTable& table = *s->rotation();
    return attention(rope(v[0], table), rope(v[1], table, RotarySide::keys), v[2], {.scale = 0.3});
  };
  const Gradients a = run(fused, in);
  const Gradients b = run(apart, in);
  EXPECT_LT(relative_error(a.value, b.value), 1e-13);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(a.inputs[i], b.inputs[i]), 1e-12) << i;
  EXPECT_LT(gradient_error(fused, in), 1e-8);
}

}  // namespace
}  // namespace ropewalk::testing
