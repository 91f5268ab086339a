#include "layers/positions/sinusoidal.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/error.h"

namespace ropewalk::testing {
namespace {

TEST(SinusoidalTest, HoldsSinesInEvenAndCosinesInOddColumns) {
  const Tensor table = sinusoidal_table(40, 6, 100.0, DType::f64);
  ASSERT_TRUE(table.shape == Shape({40, 6}));
  for (int64_t p = 0; p < 40; ++p) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(p) / std::pow(100.0, static_cast<double>(i) / 3.0);
      EXPECT_NEAR(table.at(p * 6 + 2 * i), std::sin(angle), 1e-14);
      EXPECT_NEAR(table.at(p * 6 + 2 * i + 1), std::cos(angle), 1e-14);
    }
  }
}

TEST(SinusoidalTest, ConcatenatedHoldsAllSinesFirstAndSpacesFrequenciesToTheBase) {
  const Tensor table = sinusoidal_table(40, 6, 100.0, DType::f64, SinusoidalLayout::concatenated);
  ASSERT_TRUE(table.shape == Shape({40, 6}));
  for (int64_t p = 0; p < 40; ++p) {
    const auto x = static_cast<double>(p);
    const double frequencies[] = {1.0, 0.1, 0.01};  // fairseq: exp(-i ln(base) / (half - 1))
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(table.at(p * 6 + i), std::sin(x * frequencies[i]), 1e-14);
      EXPECT_NEAR(table.at(p * 6 + 3 + i), std::cos(x * frequencies[i]), 1e-14);
    }
  }
  const Tensor narrow = sinusoidal_table(3, 2, 100.0, DType::f64, SinusoidalLayout::concatenated);
  EXPECT_EQ(narrow.at(4), std::sin(2.0));
  EXPECT_EQ(narrow.at(5), std::cos(2.0));
}

TEST(SinusoidalTest, StaysPreciseFarOutInSinglePrecision) {
  const int64_t length = 100001;
  const Tensor table = sinusoidal_table(length, 4, 10000.0, DType::f32);
  for (int64_t i = 0; i < 2; ++i) {
    const double angle = 1e5 * std::pow(10000.0, -static_cast<double>(i) / 2.0);
    EXPECT_NEAR(table.at((length - 1) * 4 + 2 * i), std::sin(angle), 1e-6);
    EXPECT_NEAR(table.at((length - 1) * 4 + 2 * i + 1), std::cos(angle), 1e-6);
  }
}

TEST(SinusoidalTest, RefusesAnOddWidth) {
  EXPECT_THROW(sinusoidal_table(4, 5, 10000.0, DType::f64), Error);
}

}  // namespace
}  // namespace ropewalk::testing
