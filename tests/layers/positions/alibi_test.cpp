#include "layers/positions/alibi.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace ropewalk::testing {
namespace {

TEST(AlibiTest, PowersOfTwoHalveFromTwoToTheMinusEightOverHeads) {
  const std::vector<double> slopes = alibi_slopes(8);
  ASSERT_EQ(slopes.size(), 8u);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(slopes[static_cast<std::size_t>(h)], std::ldexp(1.0, -(h + 1)));
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{std::ldexp(1.0, -8)});
  EXPECT_EQ(alibi_slopes(4), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
}

TEST(AlibiTest, OtherHeadCountsTakeEverySecondSlopeOfTheNextPower) {
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  const std::vector<double> slopes = alibi_slopes(12);
  ASSERT_EQ(slopes.size(), 12u);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(slopes[static_cast<std::size_t>(h)], std::ldexp(1.0, -(h + 1)));
  EXPECT_NEAR(slopes[8], 0.707107, 1e-6);
  EXPECT_NEAR(slopes[9], 0.353553, 1e-6);
  EXPECT_NEAR(slopes[10], 0.176777, 1e-6);
  EXPECT_NEAR(slopes[11], 0.088388, 1e-6);
}

TEST(AlibiTest, GeometricSlopesFollowTheFormulaForAnyHeadCount) {
  const auto expect = [](int64_t heads, const std::vector<double>& expected) {
    const std::vector<double> slopes = alibi_slopes(heads, AlibiSlopes::geometric);
    ASSERT_EQ(slopes.size(), expected.size());
    for (std::size_t h = 0; h < slopes.size(); ++h) EXPECT_NEAR(slopes[h], expected[h], 5e-7) << heads << " " << h;
  };
  expect(6, {.396850, .157490, .0625, .024803, .009843, .003906});
  expect(12, {.629961, .396850, .25, .157490, .099213, .0625, .039373, .024803, .015625, .009843, .006201, .003906});
  for (const int64_t power : {1, 2, 4, 8, 16, 64}) {
    EXPECT_EQ(alibi_slopes(power, AlibiSlopes::geometric), alibi_slopes(power)) << power;
  }
}

TEST(AlibiTest, AnyHeadCountHasAsManyDifferentSlopesBetweenZeroAndOne) {
  for (int64_t heads = 1; heads <= 64; ++heads) {
    std::vector<double> slopes = alibi_slopes(heads);
    ASSERT_EQ(slopes.size(), static_cast<std::size_t>(heads));
    std::sort(slopes.begin(), slopes.end());
    EXPECT_GT(slopes.front(), 0.0);
    EXPECT_LT(slopes.back(), 1.0);
    EXPECT_EQ(std::adjacent_find(slopes.begin(), slopes.end()), slopes.end()) << heads << " heads";
  }
}

}  // namespace
}  // namespace ropewalk::testing
