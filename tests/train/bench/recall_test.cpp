#include "train/bench/recall.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "small_subject.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(RecallBench, OutliersCostRecallAndAHadamardRotationSparesIt) {
  const RecallBench result = bench_recall(small_subject({"train.context_length=256"}));
  ASSERT_GE(result.rows.size(), 4U);
  EXPECT_EQ(result.top_k, 32);
  EXPECT_EQ(result.rows.front().outlier, 1);
  EXPECT_GT(result.rows.front().plain, 0.9) << "without outliers";
  EXPECT_GT(result.rows.front().hadamard, 0.9);
  const RecallBench::Row& worst = result.rows.back();
  EXPECT_GT(worst.outlier, 50);
  EXPECT_LT(worst.plain, result.rows.front().plain - 0.05);
  EXPECT_GT(worst.hadamard, worst.plain + 0.02);
  for (const RecallBench::Row& row : result.rows) {
    EXPECT_GT(row.plain, 0);
    EXPECT_LE(row.plain, 1);
    EXPECT_LE(row.hadamard, 1);
  }
}

TEST(RecallBench, TakesTheIndexerOfTheConfiguration) {
  const RecallBench result =
      bench_recall(small_subject({"train.context_length=64", "attention.pattern=top_k", "attention.top_k=5",
                                  "attention.index_heads=2", "attention.index_dim=16"}));
  EXPECT_EQ(result.positions, 64);
  EXPECT_EQ(result.top_k, 5);
  EXPECT_EQ(result.index_heads, 2);
  EXPECT_EQ(result.index_dim, 16);
  const nlohmann::json json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json.at("rows").size(), result.rows.size());
  EXPECT_EQ(json.at("rows").at(1).at("int8_hadamard").get<double>(), result.rows[1].hadamard);
  EXPECT_NE(to_text(result).find("5 of 64 keys"), std::string::npos);
  EXPECT_THROW(bench_recall(small_subject({"train.context_length=8", "attention.pattern=top_k", "attention.top_k=8"})),
               Error);
}

}  // namespace
}  // namespace ropewalk
