#include "train/bench/ops.h"

#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_subject.h"
#include "tests/train/storage_testing.h"
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
  const OpBench r = bench_ops(small_subject(), 0.01);
  EXPECT_EQ(r.tokens, 64) << "all 8 sequences of 8 in one pass";
  EXPECT_GT(r.fma_peak_gflops, 0);
  const std::vector<OpCase> cases = op_cases(small_subject().config);
  ASSERT_EQ(r.rows.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].op + " " + cases[i].variant);
    const auto check = [&](const OpBench::Pass& pass, double flops, double bytes) {
      ASSERT_GT(pass.us, 0);
      EXPECT_NEAR(pass.gflops * pass.us * 1e3, flops, 1e-6 * (flops + 1));
      EXPECT_NEAR(pass.gb_per_s * pass.us * 1e3, bytes, 1e-6 * bytes);
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
    check(r.rows[i].forward, cases[i].forward_flops, cases[i].forward_bytes);
    check(r.rows[i].backward, 2 * cases[i].forward_flops, cases[i].backward_bytes);
  }
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("rows").size(), r.rows.size());
  for (const char* key : {"us", "gflops", "gb_per_s", "roofline", "bound"}) {
    EXPECT_TRUE(json.at("rows").front().at("backward").contains(key)) << key;
  }
  EXPECT_EQ(json.at("read_gb_per_s").size(), 4U);
  const std::string text = to_text(r);
  for (const OpCase& op : cases) EXPECT_NE(text.find("\n" + op.op), std::string::npos) << op.op;
}

}  // namespace
}  // namespace ropewalk
