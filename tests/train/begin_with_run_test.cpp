// Runs that begin with the parameters of another: train.from.

#include <nlohmann/json.hpp>

#include "data/error.h"
#include "train/checkpoint_file.h"
#include "train/eval_run.h"
#include "train/events.h"
#include "train/run_directory.h"
#include "train/run_state.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class BeginWithRun : public TinyTraining {
 protected:
  BeginWithRun() { ::testing::internal::CaptureStderr(); }
  ~BeginWithRun() override { ::testing::internal::GetCapturedStderr(); }

  void train(const Words& overrides = {}, const std::string& name = "run") const {
    train_run(request(overrides, name));
  }
  /// A run in `name` that begins with the one in "run".
  void go_on(Words overrides, const std::string& name = "next") const {
    overrides.insert(overrides.begin(), "train.from=" + run_path());
    train(overrides, name);
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(read_text(run_path(name) + "/summary.json"));
  }
  std::vector<double> losses(const std::string& name) const {
    return summary(name).at("final").at("eval").at("loss").get<std::vector<double>>();
  }
  /// Do the newest checkpoints of two runs hold the same parameters and moments?
  bool same_tensors(const std::string& a, const std::string& b, const std::string& prefix = "") const {
    const Checkpoint x = require_checkpoint(run_path(a)), y = require_checkpoint(run_path(b));
    for (const StoredTensor& tensor : x.file.tensors()) {
      if (!prefix.empty() && !tensor.name.starts_with(prefix)) continue;
      const StoredTensor& other = y.file.tensor(tensor.name);
      if (!std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end())) return false;
    }
    return true;
  }
};

TEST_F(BeginWithRun, NoStepsEvaluateTheParametersUnderEveryScaling) {
  train({"train.steps=40", "optim.lr=1e-2"});
  std::vector<std::vector<double>> seen;
  for (const char* scaling : {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"}) {
    SCOPED_TRACE(scaling);
    const Words how = {std::string("position.rope_scaling=") + scaling, "position.rope_factor=4"};
    Words overrides = how;
    overrides.push_back("train.steps=0");
    go_on(overrides, scaling);
    const std::vector<double> got = losses(scaling);
    EXPECT_EQ(got, evaluate_run(run_path(), how).scores.loss);
    for (const std::vector<double>& other : seen) EXPECT_NE(got, other);
    seen.push_back(got);
    EXPECT_EQ(read_log(run_path(scaling) + "/log.h5").tables.train.step.size(), 0u);
    EXPECT_EQ(summary(scaling).at("status"), "finished");
  }
  EXPECT_EQ(seen.front(), losses("run"));
}

TEST_F(BeginWithRun, PositionsKeepTheLengthThatTheyWereMadeFor) {
  train({"train.steps=2"});
  const Words on_longer = {"train.from=" + run_path(), "train.context_length=32", "eval.lengths="};
  const Config next = config(on_longer);
  EXPECT_EQ(next.position.max_length, 16);
  EXPECT_EQ(next.position.integer("rope_original_context"), 16);
  EXPECT_EQ(next.eval.lengths, (std::vector<int64_t>{16, 24, 32, 64, 128})) << "multiples of the first training";
  EXPECT_EQ(trained_length(next), 16);
  Words given = on_longer;
  given.push_back("position.max_length=20");
  EXPECT_EQ(config(given).position.integer("rope_original_context"), 20);

  // The same through two generations, and after the first is gone.
  go_on({"train.context_length=32", "train.steps=2"});
  fs::rename(run_path(), run_path("elsewhere"));
  EXPECT_EQ(config({"train.from=" + run_path("next"), "train.context_length=64"}).position.max_length, 16);
  const RunEvaluation again = evaluate_run(run_path("next"), {"position.rope_scaling=yarn", "position.rope_factor=2"});
  EXPECT_EQ(again.trained_length, 16);
  EXPECT_EQ(load_config(run_path("next") + "/config.ini", {}).config.position.integer("rope_original_context"), 16);
}

TEST_F(BeginWithRun, AShortTrainingOnLongerWindowsLearnsTheNewScale) {
  train({"train.steps=120", "optim.lr=1e-2"});
  const Words linear = {"position.rope_scaling=linear", "position.rope_factor=2"};
  const std::vector<double> before = evaluate_run(run_path(), linear).scores.loss;
  Words overrides = linear;
  for (const char* word : {"train.steps=15", "train.context_length=32", "optim.lr=5e-3"}) overrides.emplace_back(word);
  go_on(overrides);
  const std::vector<double> after = losses("next");
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_LT(after[i], before[i] - 0.05) << i;
  EXPECT_LT(summary("next").at("final").at("train_loss").get<double>(), losses("run").front() + 0.5)
      << "it did not begin with what had been learned";
}

TEST_F(BeginWithRun, SparseTrainingBeginsWithADenseModelAndDrawsItsIndexers) {
  train({"train.steps=10"});
  const Words sparse = {"attention.pattern=top_k", "attention.top_k=4", "attention.index_heads=2",
                        "attention.index_dim=8", "attention.index_warmup_steps=3"};
  Words warm_up = sparse;
  warm_up.push_back("train.steps=3");
  go_on(warm_up, "warm");
  const Checkpoint dense = require_checkpoint(run_path()), warm = require_checkpoint(run_path("warm"));
  for (const StoredTensor& tensor : dense.file.tensors()) {
    if (tensor.name.starts_with("optimizer.")) continue;
    const StoredTensor& other = warm.file.tensor(tensor.name);
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end()))
        << tensor.name << " moved in the warm-up";
  }
  EXPECT_NO_THROW(warm.file.tensor("blocks.1.attention.index_query.weight"));
  const LogTables tables = read_log(run_path("warm") + "/log.h5").tables;
  ASSERT_EQ(tables.train.index_loss.size(), 3u);
  for (const float loss : tables.train.index_loss) EXPECT_GT(loss, 0);
  EXPECT_TRUE(std::isnan(read_log(run_path() + "/log.h5").tables.train.index_loss.front()));

  // A sparse run goes on as it is, but not as a dense one or with other indexers.
  Words next = {"train.from=" + run_path("warm"), "train.steps=2"};
  next.insert(next.end(), sparse.begin(), sparse.end() - 1);
  train(next, "sparse");
  next.push_back("attention.index_dim=16");
  EXPECT_THROW(train(next, "wider"), ConfigError);
  EXPECT_THROW(train({"train.from=" + run_path("warm"), "train.steps=2"}, "dense"), ConfigError);
  EXPECT_THROW(evaluate_run(run_path(), sparse), ConfigError) << "an evaluation draws nothing";
  EXPECT_NO_THROW(evaluate_run(run_path("warm"), {"attention.top_k=16", "attention.index_precision=int8"}));
}

TEST_F(BeginWithRun, IsRecordedWhereARunSaysWhatItIs) {
  train({"train.steps=7"});
  go_on({"train.steps=3"});
  EXPECT_EQ(summary("next").at("from"), (nlohmann::json{{"run", run_path()}, {"step", 7}}));
  EXPECT_FALSE(summary("run").contains("from"));
  EXPECT_EQ(load_config(run_path("next") + "/config.ini", {}).config.train.from, run_path());
  EXPECT_NE(read_log(run_path("next") + "/log.h5").header.config.find("from = " + run_path()), std::string::npos);
  const nlohmann::json started = read_events(run_path("next") + "/events.jsonl").front();
  EXPECT_EQ(started.at("from"), run_path());
  EXPECT_EQ(started.at("from_step"), 7);
  EXPECT_FALSE(read_events(run_path() + "/events.jsonl").front().contains("from"));
}

TEST_F(BeginWithRun, ItsMomentsAndStepsStartAnew) {
  train({"train.steps=12"});
  go_on({"train.steps=0"});
  EXPECT_TRUE(same_tensors("next", "run", "blocks."));
  EXPECT_FALSE(same_tensors("next", "run", "optimizer."));
  EXPECT_EQ(require_checkpoint(run_path("next")).step, 0);
}

TEST_F(BeginWithRun, AResumedOneEndsAsIfItHadNeverStoppedEvenWithoutWhereItBegan) {
  train({"train.steps=12"});
  const Words how = {"train.context_length=32", "position.rope_scaling=ntk", "position.rope_factor=2",
                     "optim.schedule=constant", "optim.warmup_steps=0"};
  Words whole = how, part = how;
  whole.emplace_back("train.steps=10");
  part.emplace_back("train.steps=4");
  go_on(whole, "whole");
  go_on(part, "next");
  fs::remove_all(run_path());
  const TrainRequest rest{.config = load_config(run_path("next") + "/config.ini", {"train.steps=10"}),
                          .directory = run_path("next"),
                          .resume = true};
  EXPECT_EQ(train_run(rest).status, LogStatus::finished);
  EXPECT_TRUE(same_tensors("next", "whole"));
  EXPECT_EQ(summary("next").at("from").at("step"), 12);
}

TEST_F(BeginWithRun, OtherTextIsReadWithTheVocabularyOfTheFirst) {
  train({"data.tokenizer=chars", "train.steps=2"});
  write_text(run_path("other.txt"), sentences(9000).substr(2000));
  go_on({"data.tokenizer=chars", "train.steps=2", "data.path=" + run_path("other.txt")});
  EXPECT_EQ(read_text(run_path("next") + "/vocabulary.txt"), read_text(run_path() + "/vocabulary.txt"));
  write_text(run_path("strange.txt"), sentences(5000) + "Q");
  const std::string message = message_of<DataError>([&] {
    go_on({"data.tokenizer=chars", "data.path=" + run_path("strange.txt")}, "strange");
  });
  EXPECT_NE(message.find("Q"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(run_path("strange")));
}

TEST_F(BeginWithRun, WhatFixesTheParametersMustAgree) {
  train({"train.steps=2"});
  const std::vector<std::pair<Words, std::string>> changes = {
      {{"model.n_layers=3"}, "model.n_layers: 3 against 2"},
      {{"position.encoding=alibi"}, "position.encoding: alibi against rope"},
      {{"position.rope_pairing=split_half"}, "position.rope_pairing: split_half against interleaved"},
      {{"attention.causal=false"}, "attention.causal: false against true"},
      {{"train.dtype=f64"}, "train.dtype: f64 against f32"}};
  for (const auto& [change, words] : changes) {
    const std::string message = message_of<ConfigError>([&] { go_on(change); });
    EXPECT_NE(message.find("error: " + words), std::string::npos) << message;
    EXPECT_NE(message.find(run_path()), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(run_path("next"))) << "nothing is begun";
  }
  EXPECT_NO_THROW(go_on({"train.steps=2", "model.dropout=0.2", "model.init=xavier", "position.rope_theta=5000",
                         "attention.window_radius=8", "optim.lr=3e-4"}));
}

TEST_F(BeginWithRun, WhatIsNoRunIsNamed) {
  const std::string absent = message_of<ConfigError>([&] {
    config({"train.from=" + run_path("absent"), "train.steps=2"});
  });
  EXPECT_NE(absent.find("train.from = " + run_path("absent")), std::string::npos) << absent;
  train({"train.steps=2"});
  fs::remove_all(run_path() + "/checkpoints");
  EXPECT_NE(message_of<CheckpointError>([&] { go_on({}); }).find(run_path()), std::string::npos);
  EXPECT_FALSE(fs::exists(run_path("next")));
  const std::string nothing = message_of<ConfigError>([&] { config({"train.steps=0"}); });
  EXPECT_NE(nothing.find("train.steps = 0 trains nothing; give the run"), std::string::npos) << nothing;
}

}  // namespace
}  // namespace ropewalk
