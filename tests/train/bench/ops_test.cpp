#include "train/bench/ops.h"

#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_subject.h"
#include "tests/train/storage_testing.h"
#include "train/config_error.h"
#include "train/flops.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(OpBench, EveryOpOfTheFrameworkHasACase) {
  std::set<std::string> cases;
  for (const OpCase& op : op_cases(small_subject().config)) cases.insert(op.op);
  std::set<std::string> declared;
  for (const auto& file : std::filesystem::directory_iterator(std::string(ROPEWALK_SOURCE_DIR) + "/framework/ops")) {
    if (file.path().extension() != ".h") continue;
    std::istringstream text(read_text(file.path()));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("Var ")) declared.insert(line.substr(4, line.find('(') - 4));
    }
  }
  EXPECT_GT(declared.size(), 15U);
  for (const std::string& op : declared)
    EXPECT_TRUE(cases.count(op)) << op << " needs a row in train/bench/op_cases.cpp";
  for (const std::string& op : cases) EXPECT_TRUE(declared.count(op)) << op;
}

TEST(OpBench, EveryCaseRunsForwardAndBackToAllItsInputs) {
  for (const char* dtype : {"train.dtype=f32", "train.dtype=f64"}) {
    for (const OpCase& op : op_cases(small_subject({dtype, "model.n_heads=4", "model.n_kv_heads=2"}).config)) {
      Workspace workspace;
      Tape tape(workspace, Mode::train);
      std::vector<Var> leaves;
      for (const Tensor& input : op.inputs) leaves.push_back(tape.leaf(input));
      const Var y = op.run(tape, leaves);
      Tensor ones = Tensor::zeros(y.shape(), y.dtype());
      for (int64_t i = 0; i < ones.elements(); ++i) ones.set(i, 1);
      tape.seed(y, ones);
      tape.backward();
      for (const Var& leaf : leaves) EXPECT_TRUE(tape.has_gradient(leaf)) << op.op << " " << op.variant;
      EXPECT_GT(op.forward_bytes, 0) << op.op;
      EXPECT_GT(op.backward_bytes, 0) << op.op;
    }
  }
}

TEST(OpBench, ProductsOfTheCasesAreThoseOfTheModel) {
  for (const char* window : {"attention.window_radius=-1", "attention.window_radius=3"}) {
    const Config config = small_subject({window}).config;
    const double layers = static_cast<double>(config.model.n_layers);
    const double tokens = static_cast<double>(micro_batch_sequences(config) * config.train.context_length);
    double linear = 0;
    for (const OpCase& op : op_cases(config)) {
      if (op.op == "linear") linear += op.forward_flops * (op.variant == "head" ? 1 : layers);
      const FlopCount count = count_flops(config, config.train.context_length);
      if (op.op == "attention_packed") {
        EXPECT_NEAR(op.forward_flops, count.attention * tokens / layers, 1e-6);
      }
      if (op.op == "add") {
        EXPECT_EQ(op.forward_flops, 0);
        EXPECT_EQ(op.forward_bytes, 3 * 4 * tokens * 16);
      }
    }
    EXPECT_NEAR(linear, count_flops(config, config.train.context_length).linear * tokens, 1e-6);
  }
}

TEST(OpBench, TheRooflineIsWhatThePeakOrTheMemoryAllows) {
  const OpBench r = bench_ops(small_subject(), {.seconds = 0.01});
  EXPECT_EQ(r.tokens, 64) << "all 8 sequences of 8 in one pass";
  EXPECT_GT(r.fma_peak_gflops, 0);
  const std::vector<OpCase> cases = op_cases(small_subject().config);
  ASSERT_EQ(r.rows.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].op + " " + cases[i].variant);
    const auto check = [&](const OpBench::Pass& pass, double flops, double bytes) {
      const double us = pass.us.median;
      ASSERT_GT(us, 0);
      EXPECT_NEAR(pass.gflops * us * 1e3, flops, 1e-6 * (flops + 1));
      EXPECT_NEAR(pass.gb_per_s * us * 1e3, bytes, 1e-6 * bytes);
      double bandwidth = 0;
      for (const MemoryLevel& level : r.memory.levels) {
        if (pass.bound == level.name) bandwidth = level.bytes_per_s * 1e-9;
      }
      if (pass.bound == "FMA") {
        EXPECT_NEAR(pass.roofline, pass.gflops / r.fma_peak_gflops, 1e-9);
      } else {
        ASSERT_GT(bandwidth, 0) << pass.bound;
        EXPECT_NEAR(pass.roofline, pass.gb_per_s / bandwidth, 1e-9);
        EXPECT_LE(pass.gflops / r.fma_peak_gflops, pass.roofline);
      }
    };
    const bool at_once = cases[i].gradient_in_forward;
    EXPECT_EQ(at_once, cases[i].op == "linear_cross_entropy" || cases[i].op == "index_loss");
    check(r.rows[i].forward, (at_once ? 3 : 1) * cases[i].forward_flops, cases[i].forward_bytes);
    check(r.rows[i].backward, (at_once ? 0 : 2) * cases[i].forward_flops, cases[i].backward_bytes);
  }
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("rows").size(), r.rows.size());
  for (const char* key :
       {"us", "gflops", "us_lower_quartile", "us_noisy", "gb_per_s", "roofline", "roofline_reliable", "bound"}) {
    EXPECT_TRUE(json.at("rows").front().at("backward").contains(key)) << key;
  }
  EXPECT_EQ(json.at("read_gb_per_s").size(), 4U);
  const std::string text = to_text(r);
  for (const OpCase& op : cases) EXPECT_NE(text.find("\n" + op.op), std::string::npos) << op.op;
}

TEST(OpBench, AShareBeyondTheRoofIsMarked) {
  const MemoryRoof disturbed{
      {{{"L1", 32'768, 1, 2e9}, {"L2", 1 << 19, 1, 2e9}, {"L3", 1 << 24, 1, 2e9}, {"DRAM", int64_t{1} << 40, 1, 2e9}}}};
  OpBench r{.name = "XS", .memory = disturbed};
  const OpBench::Pass absurd = judge(spread_of({1e-6}), 0, 67'820, 1e11, disturbed);
  const OpBench::Pass noisy = judge(spread_of({1e-3, 2e-3, 3e-3}), 1e6, 10, 1e11, disturbed);
  EXPECT_NEAR(absurd.roofline, 33.91, 1e-9);
  EXPECT_EQ(absurd.bound, "L2");
  EXPECT_NEAR(noisy.roofline, 0.005, 1e-9);
  EXPECT_EQ(noisy.bound, "FMA");
  r.rows = {{.op = "add", .forward = absurd, .backward = noisy}};
  const std::string text = to_text(r);
  EXPECT_NE(text.find("3391.0 %? L2"), std::string::npos) << text;
  EXPECT_NE(text.find("2000.0~"), std::string::npos) << text;
  EXPECT_NE(text.find("0.5 %  FMA"), std::string::npos) << text;
  EXPECT_NE(text.find(kShareRule), std::string::npos) << text;
  EXPECT_NE(text.find("\n~: noisy, "), std::string::npos) << text;
  const nlohmann::json row = nlohmann::json::parse(to_json(r)).at("rows").at(0);
  EXPECT_EQ(row.at("forward").at("roofline_reliable"), false);
  EXPECT_EQ(row.at("forward").at("us_noisy"), false);
  EXPECT_EQ(row.at("backward").at("roofline_reliable"), true);
  EXPECT_EQ(row.at("backward").at("us_noisy"), true);
  r.rows = {{.op = "add", .forward = judge(spread_of({1}), 0, 100, 1e11, disturbed), .backward = noisy}};
  EXPECT_EQ(to_text(r).find(kShareRule), std::string::npos);
}

TEST(OpBench, OnlyTheChosenOpsAreMeasured) {
  const auto names = [](const std::string& only) {
    std::set<std::string> out;
    for (const OpBench::Row& row : bench_ops(small_subject(), {.seconds = 0, .only = only}).rows) {
      out.insert(row.variant.empty() ? row.op : row.op + ": " + row.variant);
    }
    return out;
  };
  const std::set<std::string> norms = names("norm");
  EXPECT_TRUE(norms.count("layer_norm") && norms.count("rms_norm") && norms.count("head_norm"));
  for (const std::string& name : names("attention")) EXPECT_NE(name.substr(0, 6), "linear") << name;
  for (const std::string& name : norms) EXPECT_NE(name.find("norm"), std::string::npos) << name;
  EXPECT_EQ(names("attention_packed: rotary"), (std::set<std::string>{"attention_packed: rotary"}));
  try {
    bench_ops(small_subject(), {.seconds = 0, .only = "atention"});
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'atention'"), std::string::npos) << text;
    EXPECT_NE(text.find("attention_packed"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ropewalk
