#include "data/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ropewalk {
namespace {

std::vector<uint64_t> words(CounterRandom random, int count) {
  std::vector<uint64_t> result;
  for (int i = 0; i < count; ++i) result.push_back(random.next());
  return result;
}

TEST(CounterRandom, RepeatsForEqualCoordinates) {
  EXPECT_EQ(words({7, DataStream::train_window, 3, 4}, 50), words({7, DataStream::train_window, 3, 4}, 50));
}

TEST(CounterRandom, SharesNoWordBetweenCoordinates) {
  std::set<uint64_t> seen;
  std::size_t drawn = 0;
  for (const uint64_t seed : {0, 1}) {
    for (const DataStream stream :
         {DataStream::train_window, DataStream::train_problem, DataStream::train_choice, DataStream::evaluation_problem,
          DataStream::train_mask, DataStream::evaluation_mask}) {
      for (const int64_t step : {0, 1}) {
        for (const int64_t index : {0, 1}) {
          for (const uint64_t word : words({seed, stream, step, index}, 9)) seen.insert(word), ++drawn;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(CounterRandom, BelowIsUniform) {
  constexpr int kBound = 6, kDraws = 60000;
  std::vector<int> counts(kBound);
  CounterRandom random(1, DataStream::train_window, 0, 0);
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(kBound));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / kBound, 500);  // 5.5 standard deviations
}

TEST(CounterRandom, UniformFillsTheUnitInterval) {
  constexpr int kTenths = 10, kDraws = 60000;
  std::vector<int> counts(kTenths);
  CounterRandom random(3, DataStream::train_mask, 0, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts.at(static_cast<std::size_t>(u * kTenths));
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / kTenths, 400);  // 5.4 standard deviations
}

TEST(CounterRandom, BelowHasNoRemainderBiasForHugeBounds) {
  // 2^64 is 2.67 times this bound: a bare remainder would give the lower 2/3 of the range 3/4 of all draws.
  constexpr int64_t kBound = int64_t{3} << 61;
  constexpr int kDraws = 20000;
  int low = 0;
  CounterRandom random(2, DataStream::train_window, 0, 0);
  for (int i = 0; i < kDraws; ++i) low += random.below(kBound) < kBound / 3 * 2;
  EXPECT_NEAR(low, kDraws * 2 / 3, 370);
}

}  // namespace
}  // namespace ropewalk
