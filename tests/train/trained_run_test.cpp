#include "train/trained_run.h"

#include "data/error.h"
#include "framework/error.h"
#include "train/run_state.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class LoadTrainedModel : public TinyTraining {
 protected:
  void train(const std::vector<std::string>& overrides) const {
    ::testing::internal::CaptureStderr();
    train_run(request(overrides));
    ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LoadTrainedModel, GivesTheParametersOfTheNewestCheckpointWithoutTheData) {
  train({"train.steps=4"});
  const Checkpoint newest = *latest_checkpoint(checkpoints_in(run_path())).checkpoint;
  std::filesystem::remove(text_path());
  const TrainedModel trained = load_trained_model(run_path(), {});
  EXPECT_EQ(trained.step, 4);
  EXPECT_EQ(trained.tokenizer.kind, Tokenizer::Kind::bytes);
  EXPECT_EQ(trained.config.model.vocab_size, 256);
  const ParameterSet& parameters = trained.model->parameters();
  for (int32_t i = 0; i < static_cast<int32_t>(parameters.size()); ++i) {
    const StoredTensor& stored = newest.file.tensor(parameters[i].name);
    EXPECT_EQ(std::memcmp(parameters.value(i).bytes, stored.data.data(), stored.data.size()), 0) << parameters[i].name;
  }
}

TEST_F(LoadTrainedModel, TheTokenizerIsThatOfTheRun) {
  train({"train.steps=2", "data.tokenizer=chars"});
  const TrainedModel chars = load_trained_model(run_path(), {});
  EXPECT_EQ(tokenizer_text(chars.tokenizer), read_text(vocabulary_in(run_path())));
  std::filesystem::remove(vocabulary_in(run_path()));
  EXPECT_NE(message_of<DataError>([&] { load_trained_model(run_path(), {}); }).find("vocabulary.txt: missing"),
            std::string::npos);
  std::filesystem::remove_all(run_path());
  train({"train.steps=2", "data.source=task", "data.task=sort", "data.max_length=5", "eval.lengths=3"});
  const TrainedModel task = load_trained_model(run_path(), {});
  EXPECT_EQ(task.tokenizer.symbols[1], "<begin>");
  EXPECT_EQ(task.config.model.vocab_size, static_cast<int64_t>(task.tokenizer.symbols.size()));
}

TEST_F(LoadTrainedModel, AVocabularyOfAnotherRunIsRefused) {
  train({"train.steps=2", "data.tokenizer=chars"});
  write_text(vocabulary_in(run_path()), "ropewalk-vocabulary 1 chars 2\nU+0041\nU+0042\n");
  EXPECT_NE(
      message_of<CheckpointError>([&] { load_trained_model(run_path(), {}); }).find("the vocabulary of the run 2"),
      std::string::npos);
}

TEST_F(LoadTrainedModel, OverridesChangeTheFunctionAndNotTheParameters) {
  train({"train.steps=2"});
  const TrainedModel scaled =
      load_trained_model(run_path(), {"position.rope_scaling=linear", "position.rope_factor=4"});
  EXPECT_EQ(scaled.config.position.text("rope_scaling"), "linear");
  EXPECT_NO_THROW(load_trained_model(run_path(), {"attention.window_radius=4"}));
  for (const char* bad : {"model.n_layers=3", "position.encoding=alibi", "train.dtype=f64", "optim.lr=1",
                          "eval.lengths=16", "model.dropout=0.1", "data.path=x"}) {
    EXPECT_THROW(load_trained_model(run_path(), {bad}), ConfigError) << bad;
  }
}

}  // namespace
}  // namespace ropewalk
