#include "layers/positions/rope.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "layers/positions/scheme.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

RopeSettings settings(int64_t dims, const std::string& scaling, double factor = 1.0, int64_t context = 0,
                      int64_t length = 0) {
  return {.dims = dims, .scaling = scaling, .factor = factor, .original_context = context, .length = length};
}

/// The base that frequencies belong to, from the last of them.
double base_of(const RopeFrequencies& frequencies) {
  const auto pairs = static_cast<double>(frequencies.inverse.size());
  return std::pow(frequencies.inverse.back(), -pairs / (pairs - 1));
}

void expect_near(const RopeFrequencies& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.inverse.size(), expected.size());
  for (std::size_t m = 0; m < expected.size(); ++m) EXPECT_NEAR(got.inverse[m], expected[m], 1e-6) << "pair " << m;
}

TEST(RopeFrequenciesTest, FallGeometricallyOverTheRotaryColumns) {
  const RopeFrequencies got = rope_frequencies(settings(8, "none", 4.0));
  EXPECT_EQ(got.attention_factor, 1.0);
  expect_near(got, {1.0, 0.1, 0.01, 0.001});
  expect_near(rope_frequencies(settings(2, "none")), {1.0});
}

TEST(RopeFrequenciesTest, LinearDividesByTheFactor) {
  expect_near(rope_frequencies(settings(8, "linear", 4.0)), {0.25, 0.025, 0.0025, 0.00025});
}

TEST(RopeFrequenciesTest, NtkRaisesTheBase) {
  EXPECT_NEAR(base_of(rope_frequencies(settings(16, "ntk", 4))), 48760.5462, 1e-3);
  EXPECT_NEAR(base_of(rope_frequencies(settings(32, "ntk", 4))), 43872.9992, 1e-3);
  EXPECT_NEAR(base_of(rope_frequencies(settings(64, "ntk", 8))), 85550.3759, 1e-3);
  EXPECT_NEAR(base_of(rope_frequencies(settings(128, "ntk", 16))), 167198.7392, 1e-3);
  // The fastest pair is kept and the slowest is that of position interpolation.
  const std::vector<double> ntk = rope_frequencies(settings(16, "ntk", 4)).inverse;
  const std::vector<double> linear = rope_frequencies(settings(16, "linear", 4)).inverse;
  EXPECT_EQ(ntk.front(), 1.0);
  EXPECT_NEAR(ntk.back() / linear.back(), 1.0, 1e-12);
  EXPECT_EQ(rope_frequencies(settings(2, "ntk", 4)).inverse, std::vector<double>{1.0});
}

TEST(RopeFrequenciesTest, DynamicNtkFollowsTheLength) {
  const auto base = [](double factor, int64_t length) {
    return base_of(rope_frequencies(settings(16, "dynamic_ntk", factor, 64, length)));
  };
  EXPECT_NEAR(base(1, 64), 10000.0, 1e-8);
  EXPECT_NEAR(base(1, 128), 22081.79, 1e-2);
  EXPECT_NEAR(base(1, 256), 48760.546, 1e-3);
  EXPECT_NEAR(base(2, 128), 35097.924, 1e-3);
  EXPECT_NEAR(base(2, 256), 92432.847, 1e-3);
  EXPECT_EQ(rope_frequencies(settings(16, "dynamic_ntk", 2, 64, 3)).inverse,
            rope_frequencies(settings(16, "none")).inverse);
}

TEST(RopeFrequenciesTest, YarnRampsOverThePairs) {
  const RopeFrequencies got = rope_frequencies(settings(16, "yarn", 4, 64));
  expect_near(got, {1.0, 0.237171, 0.05, 0.007906, 0.0025, 0.000791, 0.00025, 0.000079});
  EXPECT_NEAR(got.attention_factor, 0.1 * std::log(4.0) + 1, 1e-15);
  EXPECT_EQ(rope_frequencies(settings(16, "yarn", 1, 64)).attention_factor, 1.0);
}

TEST(RopeFrequenciesTest, YarnRampsOverTheTurnsAsThePaperHasIt) {
  RopeSettings s = settings(16, "yarn", 4, 64);
  s.paper_ramp = true;
  const RopeFrequencies got = rope_frequencies(s);
  expect_near(got, {0.472240, 0.096050, 0.025045, 0.007906, 0.0025, 0.000791, 0.00025, 0.000079});
  EXPECT_NEAR(got.attention_factor, 0.1 * std::log(4.0) + 1, 1e-15);
  // Enough positions for the fastest pair: it is kept as it is, and the slowest is that of interpolation.
  s.original_context = 4096;
  const std::vector<double> wide = rope_frequencies(s).inverse;
  EXPECT_EQ(wide.front(), 1.0);
  EXPECT_NEAR(wide.back(), rope_frequencies(settings(16, "linear", 4)).inverse.back(), 1e-18);
}

TEST(RopeFrequenciesTest, TheEndsOfTheRampAreThoseOfTheCodeOrOfTheTurns) {
  RopeSettings s = settings(16, "yarn", 4, 64);
  EXPECT_EQ(yarn_ramp(s).low, 0.0);
  EXPECT_EQ(yarn_ramp(s).high, 3.0);
  s = settings(128, "yarn", 16, 4096);
  EXPECT_EQ(yarn_ramp(s).low, 20.0);  // floor(128 ln(4096 / 64 pi) / (2 ln 10000)) = floor(20.94...)
  EXPECT_EQ(yarn_ramp(s).high, 46.0);
  s.paper_ramp = true;
  for (const auto& [index, turns] : {std::pair{yarn_ramp(s).low, 32.0}, {yarn_ramp(s).high, 1.0}}) {
    EXPECT_NEAR(4096 * std::pow(10000.0, -2 * index / 128) / (2 * std::numbers::pi), turns, 1e-10);
  }
}

TEST(RopeFrequenciesTest, AnExplicitAttentionFactorWins) {
  for (const char* scaling : {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"}) {
    RopeSettings s = settings(16, scaling, 4, 64, 128);
    const std::vector<double> inverse = rope_frequencies(s).inverse;
    s.attention_factor = 0.75;
    EXPECT_EQ(rope_frequencies(s).attention_factor, 0.75) << scaling;
    EXPECT_EQ(rope_frequencies(s).inverse, inverse) << scaling;
  }
}

TEST(RopeFrequenciesTest, ZeroLowStopsThatShareOfTheSlowestPairsAndKeepsTheSpectrum) {
  for (const char* scaling : {"none", "linear", "yarn"}) {
    RopeSettings s = settings(20, scaling, 4, 64);
    const std::vector<double> whole = rope_frequencies(s).inverse;
    // The published code keeps floor(p dims/2) pairs for p = 1 - zero_low.
    for (const auto& [share, turning] :
         {std::pair{0.0, 10}, {0.25, 7}, {0.3, 7}, {0.9, 1}, {0.95, 0}, {1.0, 0}, {1e-4, 9}}) {
      s.zero_low = share;
      const std::vector<double> got = rope_frequencies(s).inverse;
      ASSERT_EQ(got.size(), whole.size());
      for (std::size_t m = 0; m < got.size(); ++m) {
        EXPECT_EQ(got[m], m < static_cast<std::size_t>(turning) ? whole[m] : 0.0) << scaling << share << " pair " << m;
      }
    }
  }
}

TEST(RopeFrequenciesTest, Llama3InterpolatesLongWavelengthsOnly) {
  expect_near(rope_frequencies(settings(16, "llama3", 4, 64)),
              {1.0, 0.254648, 0.025465, 0.007906, 0.0025, 0.000791, 0.00025, 0.000079});
}

TEST(RopeFrequenciesTest, RefusesAnUnknownScaling) {
  EXPECT_THROW(rope_frequencies(settings(16, "cubic")), Error);
}

/// The scheme at the given options, over d_head columns.
std::unique_ptr<PositionScheme> scheme(int64_t d_head, const std::map<std::string, PositionValue>& options,
                                       DType dtype) {
  PositionConfig config = default_position_config();
  config.encoding = "rope";
  config.max_length = 8;
  for (const auto& [key, value] : options) config.options[key] = value;
  return make_position_scheme(config, {.n_heads = 1, .d_model = d_head, .d_head = d_head, .dtype = dtype});
}

/// x [T, d] turned by the table of a scheme.
Tensor turned(const PositionScheme& s, const Tensor& x) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  return copy(rope(tape.constant(x.reshaped({1, 1, x.shape[0], x.shape[1]})), *s.rotation()).value());
}

/// The same row at every position.
Tensor repeated(int64_t positions, int64_t d, uint32_t salt) {
  const Tensor row = random_tensor({d}, DType::f64, salt);
  Tensor out = Tensor::zeros({positions, d}, DType::f64);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, row.at(i % d));
  return out;
}

TEST(RopeSchemeTest, KeepsNormsAndMakesScoresDependOnTheOffset) {
  for (const char* pairing : {"interleaved", "split_half"}) {
    for (const int64_t dims : {0, 4}) {
      const auto s = scheme(8, {{"rope_pairing", std::string(pairing)}, {"rope_dims", dims}}, DType::f64);
      s->prepare(30);
      const Tensor raw = repeated(30, 8, 1);
      const Tensor q = turned(*s, raw);
      const Tensor k = turned(*s, repeated(30, 8, 2));
      const auto product = [&](const Tensor& a, int64_t i, const Tensor& b, int64_t j) {
        double sum = 0;
        for (int64_t c = 0; c < 8; ++c) sum += a.at(i * 8 + c) * b.at(j * 8 + c);
        return sum;
      };
      for (int64_t i = 0; i < 30; ++i) EXPECT_NEAR(product(q, i, q, i), product(raw, 0, raw, 0), 1e-12);
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t j = 0; j < 20; ++j) {
          EXPECT_NEAR(product(q, i, k, j), product(q, i + 10, k, j + 10), 1e-12);
        }
      }
      EXPECT_GT(std::abs(product(q, 5, k, 0) - product(q, 6, k, 0)), 1e-6);
    }
  }
}

TEST(RopeSchemeTest, PairsThatDoNotTurnPassUnchanged) {
  const auto s = scheme(8, {{"rope_zero_low", 0.5}}, DType::f64);
  s->prepare(30);
  const Tensor x = repeated(30, 8, 1);
  const Tensor y = turned(*s, x);
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t c = 4; c < 8; ++c) EXPECT_EQ(y.at(i * 8 + c), x.at(i * 8 + c));
    if (i > 0) {
      EXPECT_NE(y.at(i * 8 + 3), x.at(i * 8 + 3));
    }
  }
}

TEST(RopeSchemeTest, OptionsReachTheTable) {
  const std::map<std::string, PositionValue> yarn = {
      {"rope_scaling", std::string("yarn")}, {"rope_factor", 4.0}, {"rope_original_context", int64_t{64}}};
  const auto at = [&](std::map<std::string, PositionValue> more, int64_t pair) {
    more.insert(yarn.begin(), yarn.end());
    const auto s = scheme(16, more, DType::f64);
    s->prepare(2);
    return s->rotation()->sin.at(8 + pair);  // position 1
  };
  const double factor = 0.1 * std::log(4.0) + 1;
  EXPECT_NEAR(at({}, 0), factor * std::sin(1.0), 1e-12);
  EXPECT_NEAR(at({{"yarn_ramp", std::string("paper")}}, 0), factor * std::sin(0.472240), 1e-6);
  EXPECT_NEAR(at({{"rope_attention_factor", 2.0}}, 0), 2 * std::sin(1.0), 1e-12);
  EXPECT_EQ(at({{"rope_zero_low", 0.125}}, 7), 0.0);
}

TEST(RopeSchemeTest, TurnsByTheKnownExample) {
  // theta is chosen so that the second of two pairs turns by 0.01 a position.
  const auto s = scheme(4, {{"rope_theta", 10000.0}}, DType::f64);
  s->prepare(4);
  Tensor q = Tensor::zeros({4, 4}, DType::f64);
  q.set(12, 1.0);
  q.set(14, 1.0);
  q.set(15, 2.0);
  const Tensor y = turned(*s, q);
  EXPECT_NEAR(y.at(12), -0.989992, 1e-6);
  EXPECT_NEAR(y.at(13), 0.141120, 1e-6);
  EXPECT_NEAR(y.at(14), 0.939559, 1e-6);
  EXPECT_NEAR(y.at(15), 2.029096, 1e-6);
}

TEST(RopeSchemeTest, StaysPreciseFarOutInSinglePrecision) {
  const auto s = scheme(8, {}, DType::f32);
  s->prepare(100001);
  for (int64_t m = 0; m < 4; ++m) {
    const double angle = 1e5 * std::pow(10000.0, -static_cast<double>(m) / 4.0);
    EXPECT_NEAR(s->rotation()->cos.at(100000 * 4 + m), std::cos(angle), 1e-6);
    EXPECT_NEAR(s->rotation()->sin.at(100000 * 4 + m), std::sin(angle), 1e-6);
  }
}

TEST(RopeSchemeTest, DynamicNtkForgetsTheLengthBefore) {
  const std::map<std::string, PositionValue> options = {{"rope_scaling", std::string("dynamic_ntk")},
                                                        {"rope_factor", 2.0}};
  const auto used = scheme(8, options, DType::f64);
  for (const int64_t length : {6, 40, 20, 7}) {
    used->prepare(length);
    const auto fresh = scheme(8, options, DType::f64);
    fresh->prepare(length);
    for (int64_t i = 0; i < length * 4; ++i) {
      ASSERT_EQ(used->rotation()->cos.at(i), fresh->rotation()->cos.at(i)) << "length " << length;
    }
  }
}

TEST(RopeSchemeTest, TheOriginalContextDefaultsToTheGreatestLength) {
  const std::map<std::string, PositionValue> by_default = {{"rope_scaling", std::string("yarn")}, {"rope_factor", 4.0}};
  std::map<std::string, PositionValue> given = by_default;
  given["rope_original_context"] = int64_t{8};
  const auto a = scheme(8, by_default, DType::f64);
  const auto b = scheme(8, given, DType::f64);
  a->prepare(9);
  b->prepare(9);
  for (int64_t i = 0; i < 36; ++i) EXPECT_EQ(a->rotation()->sin.at(i), b->rotation()->sin.at(i));
}

}  // namespace
}  // namespace ropewalk::testing
