#include "train/bench/step.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_subject.h"
#include "train/flops.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

StepBench measured(BenchPass pass, const std::vector<std::string>& more = {}) {
  return bench_step(small_subject(more), {.pass = pass, .warmup = 1, .least_steps = 4, .seconds = 0.01});
}

const StepBench::Op& op_of(const StepBench& bench, const std::string& name) {
  for (const StepBench::Op& op : bench.ops) {
    if (op.name == name) return op;
  }
  throw std::runtime_error("no op " + name);
}

TEST(StepBench, RatesFollowFromTheMedian) {
  for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
    const StepBench r = measured(pass);
    EXPECT_GE(r.steps, 4);
    EXPECT_EQ(r.tokens, 64);
    EXPECT_LE(r.step_ms_least, r.step_ms);
    EXPECT_GE(r.step_ms_greatest, r.step_ms);
    EXPECT_NEAR(r.tokens_per_s * r.step_ms, 1e3 * r.tokens, 1e-6);
    const FlopCount count = count_flops(small_subject().config, 8);
    EXPECT_EQ(r.flops_per_token, pass == BenchPass::train ? count.training() : count.forward);
    EXPECT_NEAR(r.gflops / (r.tokens_per_s * r.flops_per_token * 1e-9), 1, 1e-12);
    EXPECT_NEAR(r.fma_share * r.fma_peak_gflops / r.gflops, 1, 1e-12);
    EXPECT_GT(r.arena_bytes, 0);
    EXPECT_GT(r.peak_rss_bytes, r.arena_bytes);
  }
}

TEST(StepBench, SharesOfTheOpsAddUpToOneAndTheLongestStandsFirst) {
  const StepBench r = measured(BenchPass::train);
  double sum = 0;
  double before = 1;
  for (const StepBench::Op& op : r.ops) {
    EXPECT_GE(op.share, 0) << op.name;
    EXPECT_LE(op.share, before) << op.name;
    before = op.share;
    sum += op.share;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  for (const char* name : {"linear", "attention", "linear_cross_entropy", "embedding"}) {
    EXPECT_GT(op_of(r, name).forward_ms, 0) << name;
    EXPECT_GT(op_of(r, name).backward_ms, 0) << name;
  }
  for (const char* name : {"data", "lanes", "optimizer"}) EXPECT_GT(op_of(r, name).step_ms, 0) << name;
  EXPECT_EQ(op_of(r, "optimizer").calls, 1);
  EXPECT_EQ(op_of(r, "attention").calls, 2) << "one pass of 8 sequences, 2 layers";
}

TEST(StepBench, ProductsOfTheOpsAreThoseOfTheModel) {
  for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
    const StepBench r = measured(pass);
    const FlopCount count = count_flops(small_subject().config, 8);
    const double passes = pass == BenchPass::train ? 3 : 1;
    ASSERT_EQ(r.products.size(), 2U);
    for (const StepBench::Product& product : r.products) {
      const double flops = product.name == "linear" ? count.linear : count.attention;
      EXPECT_NEAR(product.gflops * 1e6 * product.ms / (passes * flops * r.tokens), 1, 1e-9) << product.name;
      EXPECT_NEAR(product.fma_share * r.fma_peak_gflops / product.gflops, 1, 1e-9) << product.name;
      double ms = 0;
      double share = 0;
      for (const StepBench::Op& op : r.ops) {
        if (op.name.find(product.name) == std::string::npos) continue;
        ms += op.forward_ms + op.backward_ms;
        share += op.share;
      }
      EXPECT_DOUBLE_EQ(product.ms, ms) << product.name;
      EXPECT_DOUBLE_EQ(product.share, share) << product.name;
    }
  }
}

TEST(StepBench, AForwardPassHasNoBackwardTimes) {
  const StepBench r = measured(BenchPass::forward);
  for (const StepBench::Op& op : r.ops) EXPECT_EQ(op.backward_ms, 0) << op.name;
  EXPECT_GT(op_of(r, "token_losses").forward_ms, 0);
}

TEST(StepBench, SeveralThreadsAreTimedTogetherAndTheirOpsOnOne) {
  const StepBench r = measured(BenchPass::train, {"train.threads=2"});
  EXPECT_EQ(r.threads, 2);
  EXPECT_EQ(op_of(r, "optimizer").calls, 1);
}

TEST(StepBench, JsonHoldsWhatTheTextShows) {
  const StepBench r = measured(BenchPass::train);
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("name"), "XS");
  EXPECT_EQ(json.at("pass"), "train");
  EXPECT_EQ(json.at("threads"), 1);
  for (const char* key : {"dtype", "parameters", "steps", "tokens", "step_ms", "step_ms_least", "step_ms_greatest",
                          "tokens_per_s", "flops_per_token", "gflops", "fma_peak_gflops", "fma_share",
                          "page_faults_per_step", "arena_bytes", "peak_rss_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  ASSERT_EQ(json.at("ops").size(), r.ops.size());
  ASSERT_EQ(json.at("products").size(), 2U);
  for (const char* key : {"name", "ms", "share", "gflops", "fma_share"}) {
    EXPECT_TRUE(json.at("products")[0].contains(key)) << key;
  }
  const std::string text = to_text(r);
  for (const nlohmann::json& op : json.at("ops")) {
    EXPECT_NE(text.find("\n  " + op.at("op").get<std::string>() + " "), std::string::npos) << op;
    for (const char* key : {"calls", "forward_ms", "backward_ms", "step_ms", "share"}) {
      EXPECT_TRUE(op.contains(key)) << key;
    }
  }
}

}  // namespace
}  // namespace ropewalk
