#include "experiments/log_digest.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/long_log.h"
#include "tests/train/storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

float greatest_of(const BucketedRows& rows, std::size_t i) {
  float greatest = 0;
  for (std::size_t b = 0; b < rows.size(); ++b) greatest = std::max(greatest, rows.greatest(b, i));
  return greatest;
}

TEST(LogDigest, IsSmallAndKeepsTheExtremesOfALongLog) {
  const TemporaryDirectory dir;
  const LongLog size{.steps = 5000, .layers = 6, .kinds = 3, .heads = 2};
  write_long_log(dir.path(), size);
  const DigestBudget budget{
      .train_buckets = 50, .layer_values = 18 * 20, .depth_values = 7 * 10, .head_values = 12 * 10};
  const LogDigest log = digest_log(dir / "log.h5", budget);
  EXPECT_EQ(log.n_layers, 6);
  EXPECT_EQ(log.kinds.back(), "block");
  EXPECT_LE(log.train.size(), 50U);
  EXPECT_LE(log.layers[0].size(), 20U);
  EXPECT_LE(log.residual_grad_norm.size(), 10U);
  EXPECT_LE(log.entropy.size(), 10U);
  EXPECT_GE(log.layers[0].size(), 10U);
  // One step of layer 1 stands out by a factor of a million, in every kind.
  const std::size_t block = 2;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    EXPECT_EQ(greatest_of(log.layers[0], 3 + kind),
              long_log_gradient(size, size.spike_step, 1, static_cast<int64_t>(kind)));
  }
  EXPECT_EQ(greatest_of(log.train, LogDigest::grad_norm), kSpike);
  // The ratio of the last layer to the first is that of the rows, each by itself.
  double expected = 0;
  std::size_t rows = 0;
  const auto end = std::min<int64_t>(log.log_ratio.width(), size.steps + 1);
  for (int64_t step = 1; step < end; ++step, ++rows) {
    expected += std::log(long_log_gradient(size, step, 5, 2) / long_log_gradient(size, step, 0, 2));
  }
  EXPECT_NEAR(log.log_ratio.mean(0, block), expected / static_cast<double>(rows), 1e-5);
  EXPECT_EQ(log.eval_step, 5000);
  ASSERT_EQ(log.loss_by_position.size(), 4U);
  EXPECT_EQ(log.loss_by_position[3], 3.5F);
  EXPECT_TRUE(log.damage.empty());
}

TEST(LogDigest, ShortRunsHaveTheBucketsOfTheLongOnesTheyAreComparedWith) {
  const TemporaryDirectory a;
  const TemporaryDirectory b;
  write_long_log(a.path(), {.steps = 900});
  write_long_log(b.path(), {.steps = 40, .compress = false});
  const DigestBudget budget{.train_buckets = 16, .layer_values = 12 * 16, .depth_values = 80, .head_values = 128};
  LogDigest longer = digest_log(a / "log.h5", budget);
  LogDigest shorter = digest_log(b / "log.h5", budget);
  EXPECT_NE(longer.train.width(), shorter.train.width());
  align({&longer, &shorter});
  EXPECT_EQ(longer.train.width(), shorter.train.width());
  EXPECT_EQ(longer.layers[1].width(), shorter.layers[1].width());
  EXPECT_EQ(longer.entropy.width(), shorter.entropy.width());
}

TEST(LogDigest, ALogWithTooFewRowsToTellUsesTheConfiguredCadence) {
  const TemporaryDirectory dir;
  write_long_log(dir.path(), {.steps = 3});
  EXPECT_EQ(digest_log(dir / "log.h5", {}, {.train = 1, .layers = 10, .attention = 50}).layers[0].width(), 10);
  EXPECT_EQ(digest_log(dir / "log.h5", {}).layers[0].width(), 1);
}

TEST(LogDigest, TheBudgetOfManyRunsFitsIntoTwoMegabytes) {
  for (const std::size_t runs : {1U, 12U, 48U, 200U}) {
    const DigestBudget budget = digest_budget(runs);
    const double bytes =
        static_cast<double>(runs) *
        (53.0 * static_cast<double>(budget.train_buckets) + 16.0 * static_cast<double>(budget.layer_values) +
         3.0 * static_cast<double>(budget.depth_values) + 11.0 * static_cast<double>(budget.head_values));
    EXPECT_LT(bytes, runs > 48 ? 2.0e6 : 1.6e6) << runs;
  }
}

TEST(LogDigest, WhatIsNoLogIsRefused) {
  const TemporaryDirectory dir;
  EXPECT_THROW(digest_log(dir / "log.h5", {}), LogError);
  write_text(dir / "log.h5", "");
  EXPECT_THROW(digest_log(dir / "log.h5", {}), LogError);
  std::filesystem::remove(dir / "log.h5");
  write_long_log(dir.path(), {.steps = 200});
  const std::string whole = read_text(dir / "log.h5");
  write_text(dir / "log.h5", whole.substr(0, whole.size() / 2));
  EXPECT_THROW(digest_log(dir / "log.h5", {}), LogError);
}

}  // namespace
}  // namespace ropewalk
