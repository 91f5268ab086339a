#include "data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "data/batch.h"

namespace ropewalk {
namespace {

constexpr int32_t kMask = 50;

struct Masked {
  std::vector<int32_t> text;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

std::vector<int32_t> text_of(int64_t length) {
  std::vector<int32_t> text;
  for (int64_t i = 0; i < length; ++i) text.push_back(static_cast<int32_t>((7 * i + 3) % kMask));
  return text;
}

Masked trained(double probability, int64_t length, uint64_t seed, int64_t step, int64_t index) {
  Masked m{text_of(length), text_of(length), std::vector<int32_t>(static_cast<std::size_t>(length), -7)};
  mask_training({probability, kMask}, seed, step, index, m.tokens, m.targets);
  return m;
}

/// Within 5 standard deviations of a binomial count.
void expect_share(int64_t count, int64_t of, double share) {
  const auto n = static_cast<double>(of);
  EXPECT_NEAR(static_cast<double>(count), n * share, 5 * std::sqrt(n * share * (1 - share))) << "of " << of;
}

/// Fails unless the chosen positions are `probability` of all and 80 % masks, 10 % random and 10 % as they were.
void expect_shares(const std::vector<Masked>& all, double probability) {
  int64_t positions = 0;
  int64_t chosen = 0;
  int64_t masks = 0;
  int64_t kept = 0;
  int64_t others = 0;
  std::set<int32_t> random_tokens;
  for (const Masked& m : all) {
    for (std::size_t i = 0; i < m.text.size(); ++i) {
      ++positions;
      if (m.targets[i] == kIgnored) {
        ASSERT_EQ(m.tokens[i], m.text[i]);
        continue;
      }
      ++chosen;
      ASSERT_EQ(m.targets[i], m.text[i]);
      ASSERT_GE(m.tokens[i], 0);
      ASSERT_LE(m.tokens[i], kMask);
      if (m.tokens[i] == kMask) {
        ++masks;
      } else if (m.tokens[i] == m.text[i]) {
        ++kept;
      } else {
        ++others;
        random_tokens.insert(m.tokens[i]);
      }
    }
  }
  expect_share(chosen, positions, probability);
  expect_share(masks, chosen, 0.8);
  expect_share(kept, chosen, 0.1 + 0.1 / kMask);  // a random token may be the right one
  expect_share(others, chosen, 0.1 * (1 - 1.0 / kMask));
  EXPECT_EQ(random_tokens.size(), kMask);
}

TEST(MaskTraining, MasksEightTenthsOfTheChosenPositionsAndLeavesTheOthersAlone) {
  for (const double probability : {0.15, 0.4}) {
    std::vector<Masked> all;
    for (int64_t i = 0; i < 1000; ++i) all.push_back(trained(probability, 200, 1, i / 10, i % 10));
    expect_shares(all, probability);
  }
}

TEST(MaskTraining, IsAFunctionOfSeedStepAndIndex) {
  const Masked first = trained(0.15, 100, 3, 5, 7);
  EXPECT_EQ(first.tokens, trained(0.15, 100, 3, 5, 7).tokens);
  EXPECT_EQ(first.targets, trained(0.15, 100, 3, 5, 7).targets);
  for (const Masked& other : {trained(0.15, 100, 4, 5, 7), trained(0.15, 100, 3, 6, 7), trained(0.15, 100, 3, 5, 8)}) {
    EXPECT_NE(first.targets, other.targets);
  }
}

TEST(MaskTraining, EachSequenceHasSomethingToPredict) {
  std::set<std::size_t> places;
  for (int64_t index = 0; index < 200; ++index) {
    const Masked m = trained(1e-9, 8, 1, 0, index);
    ASSERT_EQ(counted_targets(m.targets), 1);
    places.insert(static_cast<std::size_t>(std::ranges::find_if(m.targets, [](int32_t target) { return target >= 0; }) -
                                           m.targets.begin()));
  }
  EXPECT_EQ(places.size(), 8U);
  EXPECT_EQ(counted_targets(trained(1.0, 64, 1, 0, 0).targets), 64);
}

TEST(MaskHeldOut, TheDrawBelongsToThePlaceInTheText) {
  const std::vector<int32_t> text = text_of(400);
  std::vector<int32_t> tokens = text;
  std::vector<int32_t> targets(text.size());
  mask_held_out({0.15, kMask}, 1000, tokens, targets);
  const std::vector<std::pair<int64_t, int64_t>> windows = {{0, 400}, {100, 64}, {130, 200}, {399, 1}};
  for (const auto& [begin, length] : windows) {
    std::vector<int32_t> window(text.begin() + begin, text.begin() + begin + length);
    std::vector<int32_t> of_window(window.size(), -7);
    mask_held_out({0.15, kMask}, 1000 + begin, window, of_window);
    EXPECT_TRUE(std::equal(window.begin(), window.end(), tokens.begin() + begin)) << begin;
    EXPECT_TRUE(std::equal(of_window.begin(), of_window.end(), targets.begin() + begin)) << begin;
  }
}

TEST(MaskHeldOut, HasTheSharesOfTraining) {
  Masked m{text_of(100'000), text_of(100'000), std::vector<int32_t>(100'000, -7)};
  mask_held_out({0.15, kMask}, 0, m.tokens, m.targets);
  expect_shares({m}, 0.15);
}

}  // namespace
}  // namespace ropewalk
