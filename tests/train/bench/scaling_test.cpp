#include "train/bench/scaling.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "small_subject.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

ScalingTable measured(ScalingAxis axis, const std::vector<int64_t>& values, const std::vector<std::string>& more = {}) {
  return bench_scaling(axis, {.subject = small_subject_with(more), .seconds = 0.01, .values = values});
}

TEST(Scaling, OverLengthHasBothPassesAndAWindowWhereItIsShorter) {
  const ScalingTable table = measured(ScalingAxis::length, {8, 300}, {"train.batch_size=40"});
  std::vector<std::string> rows;
  for (const ScalingTable::Row& row : table.rows) {
    rows.push_back(std::to_string(row.value) + " " + row.variant +
                   (row.pass == BenchPass::train ? " train" : " forward"));
    EXPECT_GT(row.tokens_per_s, 0);
    // As many tokens a pass as the subject has, in whole sequences.
    const double tokens = row.value == 8 ? 320 : 300;
    EXPECT_NEAR(row.tokens_per_s * row.ms, 1e3 * tokens, 1e-6);
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"8 full train", "8 full forward", "300 full train", "300 window 256 train",
                                            "300 full forward", "300 window 256 forward"}));
  EXPECT_EQ(table.rows[0].ratio, 1);
  EXPECT_EQ(table.rows[1].ratio, 1);
  EXPECT_NE(to_text(table).find("window 256"), std::string::npos);
}

TEST(Scaling, OverLengthIsRefusedForPairsWhoseLengthIsThatOfTheProblems) {
  EXPECT_THROW(measured(ScalingAxis::length, {8}, {"model.arch=encoder_decoder"}), Error);
}

TEST(Scaling, OverWidthKeepsTheSizeOfAHead) {
  const ScalingTable table = measured(ScalingAxis::width, {4, 16, 32});
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].ratio, 1);
  EXPECT_THROW(measured(ScalingAxis::width, {20}), Error) << "no multiple of a head of 8";
}

TEST(Scaling, OverThreadsAndJobs) {
  for (const ScalingAxis axis : {ScalingAxis::threads, ScalingAxis::jobs}) {
    const ScalingTable table = measured(axis, {1, 2});
    ASSERT_EQ(table.rows.size(), 2U);
    EXPECT_EQ(table.rows[0].ratio, 1);
    const double peak = table.fma_peak_gflops * 1e9;
    const BenchModel model(small_subject(), BenchPass::train);
    for (const ScalingTable::Row& row : table.rows) {
      EXPECT_NEAR(row.fma_share * peak * static_cast<double>(row.value) / (row.tokens_per_s * model.flops_per_token()),
                  1, 1e-9);
    }
  }
}

TEST(Scaling, WhatIsNotPositiveIsRefused) {
  EXPECT_THROW(measured(ScalingAxis::length, {0}), Error);
}

TEST(Scaling, JsonHoldsTheTables) {
  const std::vector<ScalingTable> tables = {measured(ScalingAxis::width, {8, 16}), measured(ScalingAxis::jobs, {1})};
  const nlohmann::json json = nlohmann::json::parse(to_json(tables));
  ASSERT_EQ(json.at("tables").size(), 2U);
  EXPECT_EQ(json.at("tables")[0].at("axis"), "width");
  EXPECT_EQ(json.at("tables")[1].at("axis"), "jobs");
  ASSERT_EQ(json.at("tables")[0].at("rows").size(), 2U);
  for (const char* key : {"value", "variant", "pass", "ms", "tokens_per_s", "ratio", "fma_share"}) {
    EXPECT_TRUE(json.at("tables")[0].at("rows")[1].contains(key)) << key;
  }
}

}  // namespace
}  // namespace ropewalk
