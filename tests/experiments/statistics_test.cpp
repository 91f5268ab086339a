#include "experiments/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace ropewalk {
namespace {

/// Does the interval exclude zero?
bool separated(const MeanInterval& difference) {
  return difference.low > 0 || difference.high < 0;
}

TEST(Statistics, StudentQuantilesAreThoseOfThePublishedTables) {
  struct Known {
    double p, freedom, t;
  };
  // Closed forms for 1 and 2 degrees of freedom; the rest from tables of the distribution.
  const std::array<Known, 9> known = {{{0.975, 1, std::tan(M_PI * 0.475)},
                                       {0.975, 2, 0.95 * std::sqrt(2 / (1 - 0.95 * 0.95))},
                                       {0.975, 3, 3.182446305},
                                       {0.975, 4, 2.776445105},
                                       {0.95, 5, 2.015048373},
                                       {0.995, 9, 3.249835542},
                                       {0.975, 19, 2.093024054},
                                       {0.975, 30, 2.042272456},
                                       {0.975, 1e7, 1.959963985}}};
  for (const Known& k : known) {
    EXPECT_NEAR(student_t_quantile(k.p, k.freedom), k.t, 1e-6 * k.t) << k.p << " with " << k.freedom;
    EXPECT_NEAR(student_t_quantile(1 - k.p, k.freedom), -k.t, 1e-6 * k.t);
  }
  EXPECT_NEAR(student_t_quantile(0.5, 7), 0, 1e-12);
}

TEST(Statistics, TheQuantileInvertsTheDistribution) {
  for (const double freedom : {1.0, 2.5, 6.0, 40.0}) {
    for (const double p : {0.001, 0.2, 0.6, 0.99}) {
      EXPECT_NEAR(student_t_cdf(student_t_quantile(p, freedom), freedom), p, 1e-12);
    }
  }
  EXPECT_THROW(student_t_quantile(0, 3), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(0.5, 0), std::invalid_argument);
}

TEST(Statistics, MeanAndDeviationOfTooFewValuesAreNotNumbers) {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(values), 5);
  EXPECT_DOUBLE_EQ(standard_deviation(values), std::sqrt(32.0 / 7));
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(standard_deviation(std::array<double, 1>{3})));
}

TEST(Statistics, PairedDifferencesUseThePairsNotTheSpreadOfTheSeeds) {
  // Seeds far apart, the difference nearly the same in each: only pairing can see it.
  const std::vector<double> a = {1.0, 2.0, 3.0};
  const std::vector<double> b = {1.1, 2.2, 3.15};
  const MeanInterval difference = paired_difference(a, b);
  EXPECT_EQ(difference.n, 3U);
  EXPECT_NEAR(difference.mean, -0.15, 1e-12);
  const double half = 4.302652730 * 0.05 / std::sqrt(3.0);
  EXPECT_NEAR(difference.low, -0.15 - half, 1e-8);
  EXPECT_NEAR(difference.high, -0.15 + half, 1e-8);
  EXPECT_TRUE(separated(difference));
  const std::vector<double> c = {1.1, 1.9, 3.15};
  EXPECT_FALSE(separated(paired_difference(a, c)));
}

TEST(Statistics, OnePairSeparatesNothingAndEqualValuesDoNotEither) {
  const std::array<double, 1> one = {1}, two = {2};
  EXPECT_FALSE(separated(paired_difference(one, two)));
  EXPECT_TRUE(std::isnan(paired_difference(one, two).low));
  const std::vector<double> same = {1, 2, 3};
  EXPECT_FALSE(separated(paired_difference(same, same)));
  EXPECT_THROW(paired_difference(same, one), std::invalid_argument);
}

}  // namespace
}  // namespace ropewalk
