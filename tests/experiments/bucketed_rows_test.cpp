#include "experiments/bucketed_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ropewalk {
namespace {

BucketedRows rows_of(const std::vector<std::pair<int64_t, float>>& values, int64_t width, std::size_t most) {
  BucketedRows rows(1, width, most);
  for (const auto& [step, value] : values) rows.add(step, std::span(&value, 1));
  return rows;
}

TEST(BucketedRows, KeepsEveryRowWhileThereIsRoom) {
  const BucketedRows rows = rows_of({{1, 5}, {10, 4}, {20, 3}}, 10, 8);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_FALSE(rows.merged());
  EXPECT_EQ(rows.last_step(1), 10);
  EXPECT_EQ(rows.greatest(2, 0), 3);
}

TEST(BucketedRows, NothingThatStandsOutGetsLost) {
  BucketedRows rows(2, 1, 16);
  for (int64_t step = 0; step < 100'000; ++step) {
    const float row[2] = {step == 77'777 ? 1e6F : 1.0F, step == 5 ? -7.0F : static_cast<float>(step)};
    rows.add(step, row);
  }
  ASSERT_LE(rows.size(), 16U);
  EXPECT_TRUE(rows.merged());
  std::size_t total = 0;
  float greatest = 0;
  float least = 0;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    total += rows.rows(b);
    greatest = std::max(greatest, rows.greatest(b, 0));
    least = std::min(least, rows.least(b, 1));
    EXPECT_EQ(rows.rows(b), rows.finite(b, 0));
    EXPECT_EQ(rows.last(b, 1), static_cast<float>(rows.last_step(b)));
  }
  EXPECT_EQ(total, 100'000U);
  EXPECT_EQ(greatest, 1e6F);
  EXPECT_EQ(least, -7);
  const auto first = static_cast<double>(rows.rows(0));
  EXPECT_NEAR(rows.mean(0, 1), ((first - 1) * first / 2 - 5 - 7) / first, 1e-6);
}

TEST(BucketedRows, ValuesThatAreNotFiniteAreCountedApart) {
  const float inf = std::numeric_limits<float>::infinity();
  const BucketedRows rows = rows_of({{0, 2}, {1, NAN}, {2, inf}, {3, 4}, {4, NAN}}, 4, 2);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.rows(0), 4U);
  EXPECT_EQ(rows.finite(0, 0), 2U);
  EXPECT_EQ(rows.least(0, 0), 2);
  EXPECT_EQ(rows.greatest(0, 0), 4);
  EXPECT_EQ(rows.mean(0, 0), 3);
  EXPECT_EQ(rows.finite(1, 0), 0U);
  EXPECT_TRUE(std::isnan(rows.mean(1, 0)));
}

TEST(BucketedRows, WidenedRowsAreThoseThatWereWideFromTheStart) {
  std::vector<std::pair<int64_t, float>> values;
  for (int64_t step = 3; step < 90; step += 4) values.emplace_back(step, static_cast<float>((step * 7) % 11));
  BucketedRows narrow = rows_of(values, 2, 1000);
  const BucketedRows wide = rows_of(values, 16, 1000);
  narrow.widen(16);
  ASSERT_EQ(narrow.size(), wide.size());
  for (std::size_t b = 0; b < wide.size(); ++b) {
    EXPECT_EQ(narrow.rows(b), wide.rows(b));
    EXPECT_EQ(narrow.last_step(b), wide.last_step(b));
    EXPECT_EQ(narrow.least(b, 0), wide.least(b, 0));
    EXPECT_EQ(narrow.greatest(b, 0), wide.greatest(b, 0));
    EXPECT_EQ(narrow.last(b, 0), wide.last(b, 0));
    EXPECT_DOUBLE_EQ(narrow.mean(b, 0), wide.mean(b, 0));
  }
}

TEST(BucketedRows, StepsFromAHostileFileTakeNoMemory) {
  const int64_t far = std::numeric_limits<int64_t>::max();
  BucketedRows rows = rows_of({{1, 1}, {far, 2}}, far - 5, 2);
  rows.widen(far);
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_LE(rows_of({{1, 1}, {far / 2, 2}, {-4, 3}}, 1, 8).size(), 8U);
}

}  // namespace
}  // namespace ropewalk
