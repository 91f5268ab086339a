#include "experiments/blow_up.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ropewalk {
namespace {

constexpr int64_t kLayers = 3;
constexpr std::size_t kKinds = 3;

/// 60 steps of gradient norms near 1, the rows of layers every second step.
LogContents quiet_log() {
  LogContents log;
  log.schema.n_layers = kLayers;
  log.schema.layer_kinds = {"attention.query", "ffn.down", "block"};
  for (int64_t step = 1; step <= 60; ++step) {
    log.tables.train.step.push_back(step);
    log.tables.train.grad_norm.push_back(1.0F + 0.2F * std::sin(static_cast<float>(step)));
    if (step % 2 != 0) continue;
    log.tables.layers.step.push_back(step);
    for (std::size_t i = 0; i < kLayers * kKinds; ++i) log.tables.layers.grad_norm.push_back(0.3F);
  }
  return log;
}

float& norm_at(LogContents& log, int64_t step, int64_t layer, std::size_t kind) {
  return log.tables.layers.grad_norm[static_cast<std::size_t>((step / 2 - 1) * kLayers + layer) * kKinds + kind];
}

std::optional<BlowUp> first_blow_up(const LogContents& log) {
  return ropewalk::first_blow_up(log, [&](std::size_t first, std::size_t count) {
    const auto begin = log.tables.layers.grad_norm.begin() + static_cast<std::ptrdiff_t>(first * kLayers * kKinds);
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count * kLayers * kKinds));
  });
}

TEST(BlowUp, AQuietLogHasNone) {
  EXPECT_FALSE(first_blow_up(quiet_log()));
  EXPECT_FALSE(first_blow_up({}));
}

TEST(BlowUp, NamesTheModuleThatGrewFirst) {
  LogContents log = quiet_log();
  log.tables.train.grad_norm[44] = 25;  // step 45
  for (const int64_t step : {44, 46}) norm_at(log, step, 1, 1) = 30;
  norm_at(log, 46, 2, 0) = 300;
  norm_at(log, 44, 2, 2) = 500;  // of a block, which holds the others
  const auto found = first_blow_up(log);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 45);
  EXPECT_NEAR(found->times, 25, 2);
  EXPECT_EQ(found->module, "blocks.1.ffn.down");
  EXPECT_EQ(found->module_step, 44);
  EXPECT_NEAR(found->module_times, 100, 1e-3);
  EXPECT_EQ(blow_up_text(*found).find("gradients blew up at step 45 (2"), 0U) << blow_up_text(*found);
  EXPECT_NE(blow_up_text(*found).find("first in blocks.1.ffn.down (step 44, 100 times the median before)"),
            std::string::npos);
}

TEST(BlowUp, WhatIsNoNumberIsTheGreatest) {
  LogContents log = quiet_log();
  log.schema.layer_kinds[0] = "encoder.attention.query";
  for (std::size_t row = 50; row < 60; ++row) log.tables.train.grad_norm[row] = std::nanf("");
  norm_at(log, 52, 0, 0) = std::nanf("");
  norm_at(log, 52, 1, 1) = 4;
  const auto found = first_blow_up(log);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 51);
  EXPECT_EQ(found->module, "encoder.blocks.0.attention.query");
  EXPECT_EQ(blow_up_text(*found),
            "gradients blew up at step 51 (not finite), first in encoder.blocks.0.attention.query (step 52, not "
            "finite)");
}

TEST(BlowUp, TheGrowthOfModulesAtTheStartIsNone) {
  LogContents log = quiet_log();
  for (int64_t step = 20; step <= 60; step += 2) norm_at(log, step, 2, 0) = 60;
  EXPECT_FALSE(first_blow_up(log));
}

TEST(BlowUp, WithoutLayersTheStepIsNamed) {
  LogContents log = quiet_log();
  log.tables.layers = {};
  log.tables.train.grad_norm[30] = 1000;
  const auto found = first_blow_up(log);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->module, "");
  EXPECT_EQ(found->step, 31);
}

}  // namespace
}  // namespace ropewalk
