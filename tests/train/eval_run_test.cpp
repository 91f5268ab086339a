#include "train/eval_run.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "train/checkpoint_file.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class EvalRun : public TinyTraining {
 protected:
  void train(const std::vector<std::string>& overrides = {}) const {
    ::testing::internal::CaptureStderr();
    train_run(request(overrides));
    ::testing::internal::GetCapturedStderr();
  }
  nlohmann::json final_eval() const {
    return nlohmann::json::parse(read_text(run_path() + "/summary.json")).at("final").at("eval");
  }
};

TEST_F(EvalRun, GivesTheNumbersOfTheEndOfTheRun) {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"model.dropout=0.2"},
        {"data.tokenizer=chars", "eval.protocol=sliding"},
        {"data.source=task", "data.task=sort", "data.max_length=5", "eval.lengths=3,5,9"},
        {"model.arch=encoder_decoder", "data.source=task", "data.task=sort", "data.max_length=5", "eval.lengths=3,5,9"},
        {"model.arch=encoder"}}) {
    SCOPED_TRACE(overrides.front());
    std::filesystem::remove_all(run_path());
    train(overrides);
    const LengthScores scores = evaluate_run(run_path(), {}).scores;
    EXPECT_EQ(nlohmann::json(scores.loss), final_eval().at("loss"));
    EXPECT_EQ(scores.protocol, final_eval().at("protocol"));
    if (final_eval().contains("accuracy")) {
      EXPECT_EQ(nlohmann::json(scores.accuracy), final_eval().at("accuracy"));
      EXPECT_EQ(nlohmann::json(scores.exact_match), final_eval().at("exact_match"));
    }
    EXPECT_EQ(evaluate_run(run_path(), {"train.threads=3"}).scores.loss, scores.loss);
  }
}

TEST_F(EvalRun, MultiplesAreThoseOfTheTrainedLengthWhateverIsOverridden) {
  train({"train.steps=2"});
  const RunEvaluation evaluation = evaluate_run(run_path(), {"train.context_length=32", "eval.lengths=16,32"});
  EXPECT_EQ(evaluation.trained_length, 16);
  EXPECT_NE(scores_text(evaluation).find("      32      2x"), std::string::npos) << scores_text(evaluation);
}

TEST_F(EvalRun, LengthsProtocolAndScalingMayBeOthers) {
  train({"train.steps=60", "optim.lr=1e-2"});
  const LengthScores plain = evaluate_run(run_path(), {"eval.lengths=16,48,64"}).scores;
  EXPECT_EQ(plain.lengths, (std::vector<int64_t>{16, 48, 64}));
  const LengthScores linear =
      evaluate_run(run_path(), {"eval.lengths=16,48,64", "position.rope_scaling=linear", "position.rope_factor=4"})
          .scores;
  EXPECT_NE(linear.loss[0], plain.loss[0]);
  const LengthScores dynamic =
      evaluate_run(run_path(), {"eval.lengths=16,48,64", "position.rope_scaling=dynamic_ntk", "position.rope_factor=4"})
          .scores;
  EXPECT_EQ(dynamic.loss[0], plain.loss[0]) << "dynamic scaling starts beyond the trained context";
  EXPECT_NE(dynamic.loss[2], plain.loss[2]);
  EXPECT_EQ(evaluate_run(run_path(), {"eval.protocol=non_overlapping"}).scores.protocol, "non_overlapping");
  EXPECT_TRUE(std::isfinite(evaluate_run(run_path(), {"attention.window_radius=8"}).scores.loss[0]));
}

TEST_F(EvalRun, EveryScalingIsFromTheTrainedContextAndIsNamedWithTheResults) {
  train({"train.steps=60", "optim.lr=1e-2"});
  const std::vector<std::string> lengths = {"eval.lengths=16,32,64", "position.rope_factor=4"};
  const auto evaluated = [&](std::vector<std::string> how) {
    how.insert(how.end(), lengths.begin(), lengths.end());
    return evaluate_run(run_path(), how);
  };
  const RunEvaluation plain = evaluated({});
  EXPECT_EQ(scores_text(plain).find("not as trained"), std::string::npos) << scores_text(plain);
  for (const char* scaling : {"linear", "ntk", "dynamic_ntk", "yarn", "llama3"}) {
    SCOPED_TRACE(scaling);
    const std::string key = std::string("position.rope_scaling=") + scaling;
    const RunEvaluation scaled = evaluated({key});
    EXPECT_NE(scaled.scores.loss[2], plain.scores.loss[2]);
    EXPECT_NE(scores_text(scaled).find(std::string("\nnot as trained: position.rope_scaling = ") + scaling +
                                       ", position.rope_factor = 4\n"),
              std::string::npos)
        << scores_text(scaled);
    // Longer windows do not move what the scaling starts from.
    EXPECT_EQ(evaluated({key, "position.rope_original_context=16", "train.context_length=64"}).scores.loss,
              scaled.scores.loss);
  }
  const std::vector<double> yarn = evaluated({"position.rope_scaling=yarn"}).scores.loss;
  for (const char* other : {"position.yarn_ramp=paper", "position.rope_attention_factor=1",
                            "position.rope_zero_low=0.5", "position.rope_original_context=64"}) {
    EXPECT_NE(evaluated({"position.rope_scaling=yarn", other}).scores.loss, yarn) << other;
  }
}

TEST_F(EvalRun, AnOverrideThatChangesNothingIsWarnedOf) {
  train({"train.steps=2", "eval.lengths=16"});
  ::testing::internal::CaptureStderr();
  evaluate_run(run_path(), {"position.rope_factor=4"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("command line: warning: position.rope_factor = 4 changes "),
            0U);
  ::testing::internal::CaptureStderr();
  evaluate_run(run_path(), {"position.rope_factor=4", "position.rope_scaling=linear", "train.context_length=32"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(EvalRun, WhatFixesTheParametersCannotBeOverridden) {
  train();
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"model.n_layers=3", "model.n_layers: 3 against 2"},
      {"position.encoding=alibi", "position.encoding: alibi against rope"},
      {"position.rope_pairing=split_half", "position.rope_pairing: split_half against interleaved"},
      {"model.tie_embeddings=false", "model.tie_embeddings: false against true"},
      {"attention.causal=false", "attention.causal: false against true"}};
  for (const auto& [change, words] : changes) {
    const std::string message = message_of<ConfigError>([&] { evaluate_run(run_path(), {change}); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  const std::string unknown = message_of<ConfigError>([&] { evaluate_run(run_path(), {"eval.length=3"}); });
  EXPECT_NE(unknown.find("eval.lengths"), std::string::npos) << unknown;
}

TEST_F(EvalRun, KeysThatActInTrainingOnlyAreRefused) {
  train({"train.steps=2"});
  for (const char* change : {"optim.lr=0.5", "train.steps=7", "train.batch_size=3", "log.every=2", "train.seed=4",
                             "model.dropout=0.5", "model.init=torch"}) {
    const std::string key = std::string(change).substr(0, std::string(change).find('='));
    const std::string message = message_of<ConfigError>([&] { evaluate_run(run_path(), {change}); });
    EXPECT_EQ(message.find("command line: error: " + key + " does not change the evaluation of a trained model"), 0U)
        << message;
  }
  const std::string dtype = message_of<ConfigError>([&] { evaluate_run(run_path(), {"train.dtype=f64"}); });
  EXPECT_NE(dtype.find("train.dtype: f64 against f32"), std::string::npos) << dtype;
}

TEST_F(EvalRun, OtherTextIsReadWithTheVocabularyOfTheRun) {
  train({"data.tokenizer=chars"});
  write_text(run_path("other.txt"), sentences(9000).substr(2000));
  EXPECT_TRUE(std::isfinite(evaluate_run(run_path(), {"data.path=" + run_path("other.txt")}).scores.loss[0]));
  write_text(run_path("strange.txt"), sentences(5000) + "Q");
  const std::string message =
      message_of<DataError>([&] { evaluate_run(run_path(), {"data.path=" + run_path("strange.txt")}); });
  EXPECT_NE(message.find("Q"), std::string::npos) << message;
}

TEST_F(EvalRun, WhatIsNoRunIsNamed) {
  const std::string message = message_of<ConfigError>([&] { evaluate_run(run_path("absent"), {}); });
  EXPECT_NE(message.find(run_path("absent")), std::string::npos) << message;
  train();
  std::filesystem::remove_all(run_path() + "/checkpoints");
  EXPECT_NE(message_of<CheckpointError>([&] { evaluate_run(run_path(), {}); }).find(run_path()), std::string::npos);
}

TEST(ScoresText, ALossThatIsNoNumberHasNoSign) {
  const LengthScores scores{
      .protocol = "same_tokens", .lengths = {64}, .loss = {-std::nan("")}, .scored_tokens = {1000}};
  const std::string text = scores_text({.scores = scores, .trained_length = 64});
  EXPECT_NE(text.find("    nan"), std::string::npos) << text;
}

TEST(ScoresText, ShowsEachLengthAsAMultipleAndWhereATableEnds) {
  const LengthScores scores{.protocol = "same_tokens",
                            .lengths = {64, 96, 512},
                            .loss = {1.25, 1.5, std::nan("")},
                            .scored_tokens = {1000, 1000, 0}};
  const std::string text = scores_text({.scores = scores, .trained_length = 64});
  EXPECT_NE(text.find("protocol: same_tokens"), std::string::npos);
  EXPECT_NE(text.find("1.5x"), std::string::npos) << text;
  EXPECT_NE(text.find("1.2500"), std::string::npos) << text;
  EXPECT_NE(text.find("8x beyond its positions"), std::string::npos) << text;
  EXPECT_EQ(text.find("accuracy"), std::string::npos);
}

}  // namespace
}  // namespace ropewalk
