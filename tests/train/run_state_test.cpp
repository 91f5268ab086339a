#include "train/run_state.h"

#include <cmath>
#include <limits>

#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

using RunStateTest = TinyTraining;

RunState example_state() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {.step = 7,
          .tokens = (int64_t{1} << 60) + 1,
          .data_fingerprint = 0xfedcba9876543210,
          .wall_time = 0.1,
          .train_loss = 1.0 / 3,
          .last_loss = {1.0 / 7, nan},
          .last_accuracy = {0.3},
          .last_exact_match = {},
          .best_loss = {std::numeric_limits<double>::infinity(), 1e-310},
          .divergence = Divergence{.step = 5, .module = "blocks.1.ffn", .in_gradient = true},
          .ends_diverged = true};
}

TEST_F(RunStateTest, ComesBackBitForBit) {
  Training saved(config());
  for (int64_t step = 1; step <= 3; ++step) saved.trainer.step(step, {});
  const RunState state = example_state();
  save_state(run_path(), *saved.setup.model, saved.trainer.optimizer(), state, "[model]\n", 2);

  Training loaded(config());
  fill(loaded.parameters().flat_values(), 0.0);
  const Checkpoint checkpoint = require_checkpoint(run_path());
  EXPECT_EQ(checkpoint.file.metadata().at("config"), "[model]\n");
  const RunState back = load_state(checkpoint, *loaded.setup.model, loaded.trainer.optimizer());
  EXPECT_EQ(back.step, state.step);
  EXPECT_EQ(back.tokens, state.tokens);
  EXPECT_EQ(back.data_fingerprint, state.data_fingerprint);
  EXPECT_EQ(back.wall_time, state.wall_time);
  EXPECT_EQ(back.train_loss, state.train_loss);
  ASSERT_EQ(back.last_loss.size(), 2U);
  EXPECT_EQ(back.last_loss[0], state.last_loss[0]);
  EXPECT_TRUE(std::isnan(back.last_loss[1]));
  EXPECT_EQ(back.last_accuracy, state.last_accuracy);
  EXPECT_TRUE(back.last_exact_match.empty());
  EXPECT_EQ(back.best_loss, state.best_loss);
  ASSERT_TRUE(back.divergence);
  EXPECT_EQ(back.divergence->step, 5);
  EXPECT_EQ(back.divergence->module, "blocks.1.ffn");
  EXPECT_TRUE(back.divergence->in_gradient);
  EXPECT_TRUE(back.ends_diverged);
  EXPECT_TRUE(bytes_of(loaded.parameters().flat_values()) == bytes_of(saved.parameters().flat_values()));
  EXPECT_TRUE(bytes_of(loaded.trainer.optimizer().first_moment()) ==
              bytes_of(saved.trainer.optimizer().first_moment()));
  EXPECT_TRUE(bytes_of(loaded.trainer.optimizer().second_moment()) ==
              bytes_of(saved.trainer.optimizer().second_moment()));
  saved.trainer.step(4, {});
  loaded.trainer.step(4, {});
  EXPECT_TRUE(bytes_of(loaded.parameters().flat_values()) == bytes_of(saved.parameters().flat_values()));
}

TEST_F(RunStateTest, AnotherModelIsRefusedByTheNameOfWhatDiffers) {
  Training saved(config());
  save_state(run_path(), *saved.setup.model, saved.trainer.optimizer(), {.step = 1}, "", 1);
  const Checkpoint checkpoint = require_checkpoint(run_path());
  const std::vector<std::pair<std::vector<std::string>, std::string>> others = {
      {{"model.d_ff=48"}, "blocks.0.ffn.up.weight"},
      {{"train.dtype=f64"}, "token_embedding.weight"},
      {{"position.encoding=learned"}, "position_embedding.weight"}};
  for (const auto& [overrides, name] : others) {
    Training other(config(overrides));
    const std::string message = message_of<CheckpointError>([&] { load_parameters(checkpoint, *other.setup.model); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find(checkpoint.file.path()), std::string::npos) << message;
  }
}

TEST_F(RunStateTest, CountersThatCannotBeReadAreRefused) {
  Training run(config({"model.n_layers=1"}));
  save_state(run_path(), *run.setup.model, run.trainer.optimizer(), {.step = 1}, "", 1);
  const Checkpoint whole = require_checkpoint(run_path());
  std::vector<TensorToSave> tensors;
  for (const StoredTensor& tensor : whole.file.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data.data()});
  }
  for (const std::string state :
       {"", "{", "[]", R"({"tokens": "many"})", R"({"tokens": 1, "data_fingerprint": 2, "numbers": ["0x1p+0"]})",
        R"({"tokens": 1, "data_fingerprint": 2, "numbers": [1, 2]})"}) {
    std::map<std::string, std::string> metadata;
    if (!state.empty()) metadata["state"] = state;
    write_checkpoint(run_path("other"), 1, tensors, metadata, 1);
    const Checkpoint damaged = read_checkpoint(checkpoint_path(run_path("other"), 1));
    const std::string message =
        message_of<CheckpointError>([&] { load_state(damaged, *run.setup.model, run.trainer.optimizer()); });
    EXPECT_NE(message.find("counters cannot be read"), std::string::npos) << message;
  }
}

TEST_F(RunStateTest, ARunWithoutACheckpointIsNamed) {
  const std::string message = message_of<CheckpointError>([&] { require_checkpoint(run_path()); });
  EXPECT_NE(message.find(run_path()), std::string::npos) << message;
}

}  // namespace
}  // namespace ropewalk
