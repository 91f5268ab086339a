#include "train/bench/step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_subject.h"
#include "train/bench/machine_peak.h"
#include "train/flops.h"
#include "train/machine.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

StepBench measured(BenchPass pass, const std::vector<std::string>& more = {}) {
  return bench_step(small_subject(more), {.pass = pass, .seconds = 0.01});
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
    EXPECT_GE(r.steps, 1);
    EXPECT_EQ(r.tokens, 64);
    EXPECT_LE(r.step_ms.least, r.step_ms.median);
    EXPECT_GE(r.step_ms.greatest, r.step_ms.median);
    EXPECT_NEAR(r.tokens_per_s * r.step_ms.median, 1e3 * 64, 1e-6);
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
      EXPECT_NEAR(product.gflops * 1e6 * product.ms / (passes * flops * static_cast<double>(r.tokens)), 1, 1e-9)
          << product.name;
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

TEST(StepBench, ThreadsBeyondTheCoresAddNothingToThePeakAndTheTextSaysSo) {
  const auto cores = static_cast<int64_t>(allowed_cores().size());
  const StepBench r = measured(BenchPass::train, {fmt::format("train.threads={}", cores + 1)});
  EXPECT_EQ(r.fma_threads, cores);
  EXPECT_NE(to_text(r).find(fmt::format("which is all that the {} threads may use", cores + 1)), std::string::npos);
  for (const StepBench::Product& product : r.products) {
    EXPECT_NEAR(product.fma_share * r.fma_peak_gflops / (static_cast<double>(cores) * product.gflops), 1, 1e-9);
  }
  const StepBench fits = measured(BenchPass::train, {"train.threads=1"});
  EXPECT_EQ(fits.fma_threads, 1);
  EXPECT_EQ(to_text(fits).find("may use"), std::string::npos);
}

TEST(StepBench, TheSecondsGivenBoundThePassesAndOneIsMadeHoweverLong) {
  const StepBench r = bench_step(small_subject(), {.seconds = 0});
  EXPECT_EQ(r.steps, 1);
  EXPECT_NE(to_text(r).find("only 1 timed"), std::string::npos) << to_text(r);
  EXPECT_FALSE(r.ops.empty());
  StepBench enough = r;
  enough.steps = kEnoughPasses;
  EXPECT_EQ(to_text(enough).find("only"), std::string::npos);
}

TEST(StepBench, SaysWhatItIsDoing) {
  std::vector<std::string> said;
  bench_step(small_subject(), {.seconds = 0, .say = [&](const std::string& what) { said.push_back(what); }});
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[0], "warming up");
  EXPECT_NE(said[1].find("timing"), std::string::npos);
  EXPECT_NE(said[2].find("ops"), std::string::npos);
}

TEST(StepBench, NoisyPassesAndSharesBeyondTheRoofAreMarked) {
  StepBench r{.name = "XS", .steps = 9, .step_ms = spread_of({1, 1.01, 1.02}), .fma_share = 0.6};
  r.products = {{.name = "linear", .ms = 1, .fma_share = 0.7}};
  EXPECT_EQ(to_text(r).find("noisy"), std::string::npos) << to_text(r);
  EXPECT_EQ(to_text(r).find('?'), std::string::npos) << to_text(r);
  r.step_ms = spread_of({1, 2, 3});
  r.fma_share = 33.91;
  r.products[0].fma_share = 1.2;
  const std::string text = to_text(r);
  EXPECT_NE(text.find("\n  noisy: the quartiles differ by more than 20 % of the median"), std::string::npos) << text;
  EXPECT_NE(text.find("3391.0 %? of the FMA peak"), std::string::npos) << text;
  EXPECT_NE(text.find("120.0 %? of the FMA peak"), std::string::npos) << text;
  EXPECT_NE(text.find(kShareRule), std::string::npos) << text;
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("step_ms_noisy"), true);
  EXPECT_EQ(json.at("fma_share_reliable"), false);
  EXPECT_EQ(json.at("products")[0].at("fma_share_reliable"), false);
}

TEST(StepBench, JsonHoldsWhatTheTextShows) {
  const StepBench r = measured(BenchPass::train);
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("name"), "XS");
  EXPECT_EQ(json.at("pass"), "train");
  EXPECT_EQ(json.at("threads"), 1);
  for (const char* key : {"dtype", "step_ms", "step_ms_lower_quartile", "step_ms_upper_quartile", "step_ms_least",
                          "step_ms_greatest", "step_ms_noisy", "tokens_per_s", "flops_per_token", "gflops",
                          "fma_peak_gflops", "fma_share", "fma_share_reliable", "page_faults_per_step"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* key :
       {"threads", "fma_threads", "parameters", "steps", "tokens", "page_faults", "arena_bytes", "peak_rss_bytes"}) {
    EXPECT_TRUE(json.at(key).is_number_integer()) << key;
  }
  ASSERT_EQ(json.at("ops").size(), r.ops.size());
  ASSERT_EQ(json.at("products").size(), 2U);
  for (const char* key : {"name", "ms", "share", "gflops", "fma_share"}) {
    EXPECT_TRUE(json.at("products")[0].contains(key)) << key;
  }
  const std::string text = to_text(r);
  for (const nlohmann::json& op : json.at("ops")) {
    EXPECT_NE(text.find("\n  " + op.at("op").get<std::string>() + " "), std::string::npos) << op;
    for (const char* key : {"forward_ms", "backward_ms", "step_ms", "share"}) {
      EXPECT_TRUE(op.contains(key)) << key;
    }
    EXPECT_TRUE(op.at("calls").is_number_integer()) << op;
  }
}

TEST(StepBench, JsonSaysWhatWasMeasured) {
  BenchSubject subject = small_subject({"train.micro_batch=3", "position.encoding=rope", "optim.lr=0.5"});
  subject.overridden = {"train.micro_batch", "position.encoding", "optim.lr"};
  const nlohmann::json json = nlohmann::json::parse(to_json(bench_step(subject, {.seconds = 0})));
  const nlohmann::json& settings = json.at("settings");
  EXPECT_EQ(settings.at("train.micro_batch"), 3);
  EXPECT_EQ(settings.at("train.batch_size"), 8);
  EXPECT_EQ(settings.at("train.context_length"), 8);
  EXPECT_EQ(settings.at("position.encoding"), "rope");
  EXPECT_EQ(settings.at("attention.kind"), "mha");
  EXPECT_EQ(settings.at("model.vocab_size"), 20);
  EXPECT_EQ(json.at("overrides"),
            (nlohmann::json{{"train.micro_batch", 3}, {"position.encoding", "rope"}, {"optim.lr", 0.5}}));
  const nlohmann::json chosen = nlohmann::json::parse(to_json(bench_step(small_subject(), {.seconds = 0})));
  EXPECT_EQ(chosen.at("settings").at("train.micro_batch"), 8) << "all 8 sequences of 8 at once";
  EXPECT_TRUE(chosen.at("overrides").empty());
}

}  // namespace
}  // namespace ropewalk
