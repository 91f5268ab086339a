#include "train/bench/rounds.h"

#include <string>

#include <gtest/gtest.h>

namespace ropewalk {
namespace {

TEST(Rounds, MedianIsTheMiddleValueOrTheMeanOfTheTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({}), 0);
}

TEST(Rounds, AlternativesTakeTurnsAndAreComparedWithinARound) {
  // The machine slows down from round to round; the second alternative always takes three times as long.
  std::string calls;
  double slowness = 1;
  const std::vector<std::function<double()>> runs = {[&] {
                                                       calls += 'a';
                                                       return slowness;
                                                     },
                                                     [&] {
                                                       calls += 'b';
                                                       const double took = 3 * slowness;
                                                       slowness *= 2;
                                                       return took;
                                                     }};
  const std::vector<std::vector<double>> times = time_in_rounds(runs, 0, 3);
  EXPECT_EQ(calls, "abababab") << "one round unmeasured, then three";
  EXPECT_EQ(times, (std::vector<std::vector<double>>{{2, 4, 8}, {6, 12, 24}}));
  const Spread ratio = paired_ratio(times[1], times[0]);
  EXPECT_EQ(ratio.median, 3) << "of rounds, not of all times";
  EXPECT_EQ(ratio.least, 3);
  EXPECT_EQ(ratio.greatest, 3);
  EXPECT_EQ(paired_ratio(times[0], times[1], 6).median, 2);
}

TEST(Rounds, GoOnUntilEnoughHasBeenMeasured) {
  const std::vector<std::function<double()>> runs = {[] { return 0.5; }};
  EXPECT_EQ(time_in_rounds(runs, 3, 2).front().size(), 6U);
  EXPECT_EQ(time_in_rounds(runs, 0, 2).front().size(), 2U);
  EXPECT_TRUE(time_in_rounds({}, 3, 2).empty());
}

TEST(Rounds, ASpreadHasQuartilesAndEnds) {
  const Spread five = spread_of({5, 1, 4, 2, 3});
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.lower, 2);
  EXPECT_EQ(five.upper, 4);
  EXPECT_EQ(five.least, 1);
  EXPECT_EQ(five.greatest, 5);
  const Spread four = spread_of({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(four.lower, 1.75);
  EXPECT_DOUBLE_EQ(four.upper, 3.25);
  const Spread one = spread_of({7});
  EXPECT_EQ(one.lower, 7);
  EXPECT_EQ(one.upper, 7);
  EXPECT_EQ(spread_of({}).median, 0);
  EXPECT_EQ(quartiles_text(four, 1), "1.8 to 3.2");
}

TEST(Rounds, OnlyTheMiddleHalfDecidesWhetherAMedianIsNoisy) {
  EXPECT_FALSE(spread_of({1, 1, 1, 1, 1, 1, 1, 200}).noisy()) << "an interrupt now and then";
  EXPECT_FALSE(spread_of({0.95, 0.97, 1, 1.03, 1.05}).noisy());
  EXPECT_TRUE(spread_of({0.7, 0.8, 1, 1.2, 1.3}).noisy());
}

}  // namespace
}  // namespace ropewalk
