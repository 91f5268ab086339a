#include "train/probe_run.h"

#include <cmath>

#include "framework/error.h"
#include "train/config_error.h"
#include "train/describe.h"
#include "train/run_setup.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class ProbeRun : public TinyTraining {
 protected:
  /// Xiong et al. (2020), small.
  ResolvedConfig xiong(const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {"model.n_layers=6",      "model.d_model=16",       "model.n_heads=2",
                                    "model.activation=relu", "model.init=torch",       "model.tie_embeddings=false",
                                    "model.vocab_size=10",   "position.encoding=none", "attention.causal=false",
                                    "train.batch_size=4",    "train.context_length=8", "eval.lengths=8",
                                    "probe.inputs=normal",   "probe.seeds=3,11,2",     "model.norm_placement=post"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_config("", all, Purpose::probe);
  }
  LogContents log(const std::string& name) const { return read_log(run_path(name) + "/log.h5"); }
};

TEST_F(ProbeRun, LogsOneRowASeed) {
  const ProbeResult result = probe_run(xiong(), "post", run_path("post"), "ropewalk probe x.ini");
  EXPECT_EQ(result.seeds, (std::vector<int64_t>{3, 11, 2}));
  const LogContents log = this->log("post");
  EXPECT_EQ(log.schema.entries, result.seeds);
  EXPECT_EQ(log.status, std::vector<LogStatus>(3, LogStatus::finished));
  EXPECT_EQ(log.tables.train.step, result.seeds);
  EXPECT_EQ(log.tables.layers.step, result.seeds);
  EXPECT_EQ(log.tables.residual.step, result.seeds);
  const auto& kinds = log.schema.layer_kinds;
  const auto up = static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), "ffn.up") - kinds.begin());
  ASSERT_LT(up, kinds.size());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(result.first[i], 0.0);
    EXPECT_TRUE(std::isfinite(result.ratio[i]));
    EXPECT_DOUBLE_EQ(result.ratio[i], result.last[i] / result.first[i]);
    EXPECT_FLOAT_EQ(log.tables.train.loss[i], static_cast<float>(result.loss[i]));
    EXPECT_NEAR(result.loss[i], std::log(10.0), 1.0);
    // The module's norm holds the bias too.
    const float module = log.tables.layers.grad_norm[(i * 6 + 0) * kinds.size() + up];
    EXPECT_GE(module, static_cast<float>(result.first[i]));
    EXPECT_LT(module, 2 * static_cast<float>(result.first[i]));
    // N(0, 1) enters block 0.
    EXPECT_NEAR(log.tables.residual.rms[i * 7], 1.0, 0.15);
    EXPECT_NEAR(log.tables.residual.rms[i * 7 + 6], 1.0, 0.01) << "a norm is the last of post";
  }
}

TEST_F(ProbeRun, AVocabularyThatTheDataHaveNotIsRefusedEverywhere) {
  const ResolvedConfig other = resolved({"model.vocab_size=300"});
  const std::string words = "model.vocab_size = 300, but the data has 256 tokens";
  for (const std::string& message :
       {message_of<ConfigError>([&] { probe_run(other, "other", run_path("other"), ""); }),
        message_of<ConfigError>([&] { describe(other); }), message_of<ConfigError>([&] { set_up(other.config); })}) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  EXPECT_FALSE(std::filesystem::exists(run_path("other")));
}

TEST_F(ProbeRun, ASeedIsAnInitializationWhateverTheOrder) {
  const ProbeResult a = probe_run(xiong(), "a", run_path("a"), ""),
                    b = probe_run(xiong({"probe.seeds=2,3"}), "b", run_path("b"), "");
  EXPECT_EQ(b.ratio[0], a.ratio[2]);
  EXPECT_EQ(b.ratio[1], a.ratio[0]);
  EXPECT_EQ(b.loss[1], a.loss[0]);
  EXPECT_NE(a.ratio[0], a.ratio[1]);
}

TEST_F(ProbeRun, OnlyPreHasAFinalNorm) {
  probe_run(xiong(), "post", run_path("post"), "");
  probe_run(xiong({"model.norm_placement=pre"}), "pre", run_path("pre"), "");
  for (const std::string name : {"post", "pre"}) {
    const LogContents log = this->log(name);
    const auto& kinds = log.schema.stem_kinds;
    const auto final_norm =
        static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), "final_norm") - kinds.begin());
    ASSERT_LT(final_norm, kinds.size());
    EXPECT_EQ(std::isnan(log.tables.stem.grad_norm[final_norm]), name == "post");
  }
}

TEST_F(ProbeRun, GradientsGrowWithDepthInPostAndShrinkInPre) {
  const auto median_ratio = [&](const std::string& placement) {
    ProbeResult result =
        probe_run(xiong({"model.norm_placement=" + placement, "model.n_layers=24", "probe.seeds=1,2,3,4,5,6,7,8,9"}),
                  placement, run_path(placement), "");
    std::sort(result.ratio.begin(), result.ratio.end());
    return result.ratio[4];
  };
  EXPECT_GT(median_ratio("post"), 1.1);
  EXPECT_LT(median_ratio("pre"), 0.9);
}

TEST_F(ProbeRun, DataMayBeTheInput) {
  const ProbeResult result = probe_run(resolved({"probe.seeds=1,2"}), "data", run_path("data"), "ropewalk probe x.ini");
  // The first training step of the same seed has this loss and these gradients.
  Training run(config());
  const StepResult step = run.trainer.step(1, {});
  EXPECT_NEAR(result.loss[0], step.loss, 1e-6 * step.loss);
  EXPECT_NEAR(log("data").tables.train.grad_norm[0], step.grad_norm, 1e-4 * step.grad_norm);
}

TEST_F(ProbeRun, PairsAndMaskedTokensMayBeTheInput) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=4"},
      {"model.arch=encoder"}};
  for (const std::vector<std::string>& overrides : cases) {
    const std::string& name = overrides.front();
    std::vector<std::string> all = overrides;
    all.emplace_back("probe.seeds=1,2");
    const ProbeResult result = probe_run(resolved(all), name, run_path(name), "ropewalk probe x.ini");
    Training run(config(overrides));
    const StepResult step = run.trainer.step(1, {.residuals = true});
    EXPECT_NEAR(result.loss[0], step.loss, 1e-6 * step.loss) << name;
    const LogTables tables = log(name).tables;
    EXPECT_NEAR(tables.train.grad_norm[0], step.grad_norm, 1e-4 * step.grad_norm) << name;
    EXPECT_EQ(tables.train.tokens[0], step.tokens) << name;
    EXPECT_NEAR(tables.residual.rms[0], std::sqrt(step.residual_mean_squares[0]), 1e-5) << name;
  }
}

TEST_F(ProbeRun, VectorsForAnEncoderDecoderAreRefused) {
  const std::string message = message_of<ConfigError>([&] {
    probe_run(xiong({"model.arch=encoder_decoder", "attention.causal=true"}), "x", run_path("x"), "");
  });
  EXPECT_NE(message.find("probe.inputs = data"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(run_path("x")));
}

TEST_F(ProbeRun, ClassesMustBeGiven) {
  const std::string message =
      message_of<Error>([&] { probe_run(xiong({"model.vocab_size=0"}), "x", run_path("x"), ""); });
  EXPECT_NE(message.find("model.vocab_size"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(run_path("x")));
}

TEST(ProbeText, ShowsMedianAndRange) {
  const ProbeResult result{.name = "post",
                           .directory = "d",
                           .seeds = {1, 2, 3},
                           .ratio = {1.5, 3.0, 2.0},
                           .first = {1, 1, 1},
                           .last = {1.5, 3, 2},
                           .loss = {2, 2, 2}};
  const std::string text = probe_text({result});
  EXPECT_NE(text.find("2.000      1.500      3.000"), std::string::npos) << text;
}

}  // namespace
}  // namespace ropewalk
