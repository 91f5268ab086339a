#include "layers/positions/randomized.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

using Positions = std::vector<int32_t>;

TEST(SamplePositionsTest, AreAscendingAndBelowTheLimit) {
  for (const int64_t limit : {1, 7, 64, 2048}) {
    for (const int64_t count : {int64_t{1}, limit / 3, limit - 1, limit}) {
      for (uint32_t step = 0; step < 5; ++step) {
        const Positions p = sample_positions(count, limit, TrainingStep{3, step});
        ASSERT_EQ(static_cast<int64_t>(p.size()), count);
        for (std::size_t i = 1; i < p.size(); ++i) EXPECT_LT(p[i - 1], p[i]);
        if (count == 0) continue;
        EXPECT_GE(p.front(), 0);
        EXPECT_LT(p.back(), limit);
      }
    }
  }
  EXPECT_THROW(sample_positions(8, 7, {}), Error);
}

TEST(SamplePositionsTest, AreAFunctionOfSeedAndStep) {
  const auto at = [](uint64_t seed, uint32_t step) { return sample_positions(20, 200, TrainingStep{seed, step}); };
  EXPECT_EQ(at(1, 2), at(1, 2));
  EXPECT_NE(at(1, 2), at(1, 3));
  EXPECT_NE(at(1, 2), at(2, 2));
  EXPECT_EQ(sample_positions(20, 200, {}), sample_positions(20, 200, {}));
  EXPECT_NE(sample_positions(20, 200, {}), at(0, 0)) << "evaluation has draws of its own";
}

TEST(SamplePositionsTest, MakeEverySetAsLikelyAsAnyOther) {
  // Ten pairs out of five positions.
  constexpr int kDraws = 20000;
  std::map<Positions, int> seen;
  for (uint32_t step = 0; step < kDraws; ++step) ++seen[sample_positions(2, 5, TrainingStep{1, step})];
  ASSERT_EQ(seen.size(), 10U);
  for (const auto& [pair, times] : seen) EXPECT_NEAR(times, kDraws / 10, 5 * std::sqrt(kDraws * 0.09));
}

Combination randomized(const std::string& encoding, int64_t limit) {
  return {.encoding = encoding, .randomize_to = limit};
}

TEST(RandomizedPositionsTest, AreThoseOfTheTokensWhereThereAreNoOthers) {
  const std::vector<int32_t> tokens = some_tokens(16);
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    const auto counted = make_model(Combination{.encoding = info.name}.architecture(), 8);
    const auto drawn = make_model(randomized(info.name, 8).architecture(), 8);
    EXPECT_LT(greatest_difference(logits_of(*drawn, tokens, 2), logits_of(*counted, tokens, 2)), 1e-13) << info.name;
  }
}

TEST(RandomizedPositionsTest, AreOthersEachStepInEveryScheme) {
  const std::vector<int32_t> tokens = some_tokens(7);
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    const auto model = make_model(randomized(info.name, 40).architecture(), 7);
    const auto at = [&](uint64_t seed, uint32_t step) {
      model->prepare(7, {.training = TrainingStep{seed, step}});
      return logits_of(*model, tokens, 1);
    };
    const Tensor first = at(1, 1);
    EXPECT_TRUE(same_bits(first, at(1, 1))) << info.name;
    const bool knows_positions = info.name != "none";
    EXPECT_EQ(greatest_difference(first, at(1, 2)) > 1e-6, knows_positions) << info.name;
    EXPECT_EQ(greatest_difference(first, at(2, 1)) > 1e-6, knows_positions) << info.name;
  }
}

TEST(RandomizedPositionsTest, AreSeenAsTheOffsetsThatTheyMake) {
  // Of two tokens the offset is all that a bias knows: with positions p and q it is that of tokens q - p apart.
  ArchitectureConfig config = randomized("t5", 30).architecture();
  config.model.n_layers = 1;
  config.position.options["t5_buckets"] = int64_t{64};
  config.position.options["t5_max_distance"] = int64_t{60};
  const auto drawn = make_model(config, 2);
  const Positions places = sample_positions(2, 30, TrainingStep{5, 1});
  drawn->prepare(2, {.training = TrainingStep{5, 1}});
  const Tensor got = logits_of(*drawn, {3, 4}, 1);
  // Without randomization, tokens between that only the first and the last see through a window would change more than
  // the offset; a table moved by the distance does the same.
  config.position.randomize_to = 0;
  const auto counted = make_model(config, 2);
  const ParameterSet& p = counted->parameters();
  const Tensor table = p.value(p.find("relative_bias.weight"));
  const int64_t distance = places[1] - places[0];
  ASSERT_GT(distance, 1);
  ASSERT_LT(distance, 32) << "a bucket of its own";
  for (int64_t h = 0; h < 2; ++h) table.set(2 + h, table.at(distance * 2 + h));
  EXPECT_LT(greatest_difference(logits_of(*counted, {3, 4}, 1), got), 1e-13);
}

TEST(RandomizedPositionsTest, OfAShorterPassAreTheFirstOfThoseForTheCapacity) {
  const std::vector<int32_t> tokens = some_tokens(8);
  const auto model = make_model(randomized("learned", 30).architecture(), 8);
  const Tensor whole = logits_of(*model, tokens, 1);
  model->prepare(5, {.capacity = 8});
  const Tensor part = logits_of(*model, {tokens.begin(), tokens.begin() + 5}, 1);
  EXPECT_LT(greatest_difference(part, whole), 1e-13);
  model->prepare(5);
  EXPECT_GT(greatest_difference(logits_of(*model, {tokens.begin(), tokens.begin() + 5}, 1), whole), 1e-6);
}

TEST(RandomizedPositionsTest, EndWithTheirLimit) {
  const auto model = make_model(randomized("rope", 12).architecture(), 12);
  EXPECT_EQ(model->greatest_length(), 12);
  EXPECT_TRUE(model->depends_on_length());
  EXPECT_EQ(model->limited_by(), "position.randomize_to, which a trained run may raise");
  for (const PassPositions& pass : {PassPositions(13), PassPositions(5, {.capacity = 13})}) {
    try {
      model->prepare(pass.length, pass.draw);
      FAIL() << pass.length;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "a sequence of 13 tokens, but position.randomize_to = 12 has no more positions; raise it, which a "
                   "trained run may do, or take fewer tokens");
    }
  }
}

TEST(RandomizedPositionsTest, NeedASchemeThatServesThemAll) {
  ArchitectureConfig config = randomized("learned", 30).architecture();
  config.position.max_length = 29;
  EXPECT_THROW(make_model(config, 4), Error);
  config = randomized("xpos", 40).architecture();
  config.position.options["xpos_scale_base"] = 0.5;
  EXPECT_THROW(make_model(config, 4, DType::f32), Error);
  EXPECT_NO_THROW(make_model(config, 4, DType::f64));
}

}  // namespace
}  // namespace ropewalk::testing
