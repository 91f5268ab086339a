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
  const std::vector<Timing> timings = time_in_rounds(runs, 0, 3);
  EXPECT_EQ(calls, "abababab") << "one round unmeasured, then three";
  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[0].rounds, 3);
  EXPECT_EQ(timings[0].ratio, 1);
  EXPECT_EQ(timings[0].least, 2);
  EXPECT_EQ(timings[0].median, 4);
  EXPECT_EQ(timings[0].greatest, 8);
  EXPECT_EQ(timings[1].ratio, 3);
  EXPECT_EQ(timings[1].median, 12);
}

TEST(Rounds, GoOnUntilEnoughHasBeenMeasured) {
  const std::vector<std::function<double()>> runs = {[] { return 0.5; }};
  EXPECT_EQ(time_in_rounds(runs, 3, 2).front().rounds, 6);
  EXPECT_EQ(time_in_rounds(runs, 0, 2).front().rounds, 2);
  EXPECT_TRUE(time_in_rounds({}, 3, 2).empty());
}

}  // namespace
}  // namespace ropewalk
