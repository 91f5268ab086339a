#include "train/bench/scaling.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_subject.h"
#include "train/bench/machine_peak.h"
#include "train/config_error.h"
#include "train/machine.h"

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
    EXPECT_NEAR(row.tokens_per_s * row.ms.median, 1e3 * tokens, 1e-6);
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"8 full train", "8 full forward", "300 full train", "300 window 256 train",
                                            "300 full forward", "300 window 256 forward"}));
  EXPECT_EQ(table.rows[0].ratio.median, 1);
  EXPECT_EQ(table.rows[1].ratio.median, 1);
  EXPECT_NE(to_text(table).find("window 256"), std::string::npos);
}

TEST(Scaling, OverLengthIsRefusedForPairsWhoseLengthIsThatOfTheProblems) {
  EXPECT_THROW(measured(ScalingAxis::length, {8}, {"model.arch=encoder_decoder"}), Error);
}

TEST(Scaling, OverWidthKeepsTheSizeOfAHead) {
  const ScalingTable table = measured(ScalingAxis::width, {4, 16, 32});
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].ratio.median, 1);
  EXPECT_THROW(measured(ScalingAxis::width, {20}), ConfigError) << "no multiple of a head of 8";
}

TEST(Scaling, OverThreadsAndJobs) {
  for (const ScalingAxis axis : {ScalingAxis::threads, ScalingAxis::jobs}) {
    const ScalingTable table = measured(axis, {1, 2});
    ASSERT_EQ(table.rows.size(), 2U);
    EXPECT_EQ(table.rows[0].ratio.median, 1);
    const double peak = table.fma_peak_gflops * 1e9;
    const BenchModel model(small_subject(), BenchPass::train);
    for (const ScalingTable::Row& row : table.rows) {
      EXPECT_NEAR(row.fma_share * peak * static_cast<double>(fma_threads(row.value)) /
                      (row.tokens_per_s * model.flops_per_token()),
                  1, 1e-9);
    }
  }
}

TEST(Scaling, ThreadsBeyondTheCoresAddNothingToThePeak) {
  const int64_t many = 2 * static_cast<int64_t>(allowed_cores().size());
  const ScalingTable table = measured(ScalingAxis::threads, {many});
  const double one = table.rows[0].tokens_per_s * BenchModel(small_subject(), BenchPass::train).flops_per_token() /
                     (table.fma_peak_gflops * 1e9);
  EXPECT_NEAR(table.rows[0].fma_share * static_cast<double>(many / 2) / one, 1, 1e-9);
}

TEST(Scaling, WhatMakesNoModelIsRefusedBeforeAnythingIsMeasured) {
  const auto refusal = [](ScalingAxis axis, int64_t value) -> std::string {
    try {
      check_scaling(axis, {.subject = small_subject_with(), .values = {8, value}});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const ScalingAxis axis : {ScalingAxis::length, ScalingAxis::width, ScalingAxis::threads, ScalingAxis::jobs}) {
    EXPECT_NE(refusal(axis, 0), "");
    EXPECT_NE(refusal(axis, int64_t{1} << 60), "");
    EXPECT_EQ(refusal(axis, 16), "");
  }
  EXPECT_NE(refusal(ScalingAxis::width, 33).find("33 is no multiple of 8, the size of a head; 8, 16 and 24 are"),
            std::string::npos);
}

TEST(Scaling, UsualWidthsSuitAnySizeOfAHead) {
  EXPECT_NO_THROW(check_scaling(ScalingAxis::width, {.subject = small_subject_with({"model.d_model=48"})}));
  EXPECT_NO_THROW(check_scaling(ScalingAxis::width, {.subject = small_subject_with()}));
}

TEST(Scaling, TheTextSaysWhatARatioIsAndWhichOnesSayNothing) {
  ScalingTable table = {.name = "XS", .axis = ScalingAxis::threads, .rounds = 7, .fma_peak_gflops = 100};
  table.rows = {{.value = 1, .ratio = spread_of({1, 1, 1}), .fma_share = 0.5},
                {.value = 2, .ratio = spread_of({1.2, 1.9, 2.6}), .fma_share = 1.2}};
  const std::string text = to_text(table);
  EXPECT_NE(text.find("1.900  1.550 to 2.250"), std::string::npos) << text;
  EXPECT_NE(text.find("120.0 %? noisy\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" 50.0 % \n"), std::string::npos) << text;
  EXPECT_NE(text.find("within a round; the median of 7 rounds, and their quartiles\n"), std::string::npos) << text;
  EXPECT_NE(text.find(kNoisyRatio), std::string::npos) << text;
  EXPECT_NE(text.find(kShareRule), std::string::npos) << text;
  const nlohmann::json rows = nlohmann::json::parse(to_json({table})).at("tables").at(0).at("rows");
  EXPECT_EQ(rows[0].at("ratio_noisy"), false);
  EXPECT_EQ(rows[1].at("ratio_noisy"), true);
  EXPECT_EQ(rows[1].at("ratio"), 1.9);
  EXPECT_EQ(rows[1].at("ratio_least"), 1.2);
  EXPECT_EQ(rows[1].at("ratio_greatest"), 2.6);
  EXPECT_EQ(rows[0].at("fma_share_reliable"), true);
  EXPECT_EQ(rows[1].at("fma_share_reliable"), false);
}

TEST(Scaling, JsonHoldsTheTables) {
  const std::vector<ScalingTable> tables = {measured(ScalingAxis::width, {8, 16}), measured(ScalingAxis::jobs, {1})};
  const nlohmann::json json = nlohmann::json::parse(to_json(tables));
  ASSERT_EQ(json.at("tables").size(), 2U);
  EXPECT_EQ(json.at("tables")[0].at("axis"), "width");
  EXPECT_EQ(json.at("tables")[1].at("axis"), "jobs");
  ASSERT_EQ(json.at("tables")[0].at("rows").size(), 2U);
  for (const char* key : {"value", "variant", "pass", "ms", "tokens_per_s", "ratio", "ratio_lower_quartile",
                          "ratio_upper_quartile", "ratio_noisy", "fma_share"}) {
    EXPECT_TRUE(json.at("tables")[0].at("rows")[1].contains(key)) << key;
  }
}

}  // namespace
}  // namespace ropewalk
