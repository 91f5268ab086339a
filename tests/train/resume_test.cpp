#include <signal.h>
#include <sys/time.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "framework/error.h"
#include "train/checkpoint_file.h"
#include "train/events.h"
#include "train/run_directory.h"
#include "train/run_state.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSteps = 90;

class Resume : public TinyTraining {
 protected:
  Resume() { ::testing::internal::CaptureStderr(); }
  ~Resume() override { ::testing::internal::GetCapturedStderr(); }

  /// A child that begins the run in `name`, or continues it where it has begun.
  pid_t start(const std::vector<std::string>& overrides, const std::string& name) const {
    TrainRequest what = request(overrides, name);
    what.resume = fs::exists(what.directory);
    return start_child([what] { return static_cast<int>(train_run(what).status); });
  }
  TrainOutcome resume(const std::vector<std::string>& overrides, const std::string& name = "run") const {
    TrainRequest what = request(overrides, name);
    what.resume = true;
    return train_run(what);
  }
  LogContents log(const std::string& name) const { return read_log(run_path(name) + "/log.h5"); }
  Checkpoint checkpoint(const std::string& name, int64_t step) const {
    return read_checkpoint(checkpoint_path(checkpoints_in(run_path(name)), step));
  }

  /// Fails unless two runs ended alike, bit for bit.
  void expect_same_end(const std::string& name, const std::string& whole, int64_t last) const {
    const LogContents a = log(name), b = log(whole);
    EXPECT_EQ(a.schema, b.schema);
    EXPECT_EQ(a.status, b.status);
    EXPECT_EQ(a.tables.train.step.size(), b.tables.train.step.size());
    expect_rows_of(a.tables, b.tables, last);
    const Checkpoint x = checkpoint(name, last), y = checkpoint(whole, last);
    ASSERT_EQ(x.file.tensors().size(), y.file.tensors().size());
    for (const StoredTensor& tensor : x.file.tensors()) {
      const StoredTensor& other = y.file.tensor(tensor.name);
      EXPECT_EQ(tensor.shape, other.shape);
      EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end()))
          << tensor.name;
    }
    nlohmann::json s = nlohmann::json::parse(read_text(run_path(name) + "/summary.json"));
    nlohmann::json t = nlohmann::json::parse(read_text(run_path(whole) + "/summary.json"));
    for (nlohmann::json* summary : {&s, &t}) {
      EXPECT_GT(summary->at("tokens_per_s").get<double>(), 0.0);
      for (const char* key : {"run_id", "wall_time", "tokens_per_s"}) summary->erase(key);
    }
    EXPECT_EQ(s, t);
  }
};

/// Runs that differ in what they must bring back: dropout and text, answers of a task, a vocabulary of their own,
/// pairs, masks.
const std::vector<std::vector<std::string>>& runs() {
  static const std::vector<std::vector<std::string>> all = {
      {"model.dropout=0.1"},
      {"data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=4,8", "optim.schedule=linear"},
      {"data.tokenizer=chars", "position.encoding=learned", "position.max_length=24", "train.dtype=f64"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=reverse", "data.max_length=6", "eval.lengths=4,8",
       "model.dropout=0.1", "optim.label_smoothing=0.1", "optim.schedule=inverse_sqrt"},
      {"model.arch=encoder", "position.encoding=t5"}};
  return all;
}

std::vector<std::string> with_rhythm(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(),
                   {"train.steps=" + std::to_string(kSteps), "train.batch_size=12", "train.checkpoint_every=9",
                    "eval.every=13", "log.layers_every=3", "log.attention_every=7"});
  return overrides;
}

TEST_F(Resume, ARunKilledAtAnyMomentsEndsAsIfItHadNotBeen) {
  constexpr int kKills = 50;
  std::mt19937 random(17);
  int kills = 0, before_the_log = 0, before_a_checkpoint = 0, after_a_checkpoint = 0;
  for (int trial = 0; kills < kKills && trial < 30; ++trial) {
    const std::vector<std::string> overrides = with_rhythm(runs()[static_cast<std::size_t>(trial) % runs().size()]);
    const std::string whole = "whole" + std::to_string(trial), name = "killed" + std::to_string(trial);
    const Clock::time_point begin = Clock::now();
    ASSERT_EQ(wait_for(start(overrides, whole)), static_cast<int>(LogStatus::finished) << 8);
    const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
    const LogTables expected = log(whole).tables;

    bool first = true;
    for (bool ended = false; !ended;) {
      const pid_t pid = start(overrides, name);
      // Half of the kills fall into the start, where files are made or taken up again; the first of all comes at once.
      const auto most = first ? 0 : random() % 2 == 0 ? duration / 8 : duration / 2;
      first = false;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most + 1)));
      if (kills < kKills) kill(pid, SIGKILL);
      const int status = wait_for(pid);
      ended = WIFEXITED(status);
      if (ended) {
        ASSERT_EQ(WEXITSTATUS(status), static_cast<int>(LogStatus::finished));
        continue;
      }
      ++kills;
      const LatestCheckpoint latest = latest_checkpoint(checkpoints_in(run_path(name)));
      EXPECT_TRUE(latest.warnings.empty()) << "a checkpoint is there whole or not at all";
      const int64_t last = latest.checkpoint ? latest.checkpoint->step : 0;
      (last > 0 ? after_a_checkpoint : before_a_checkpoint) += 1;
      if (!fs::exists(run_path(name) + "/log.h5")) {
        EXPECT_EQ(last, 0) << "the log is there before the first checkpoint";
        ++before_the_log;
        continue;
      }
      // Rows up to the checkpoint were flushed before it was written; a copy, for the run goes on from the original.
      const TemporaryDirectory copy;
      fs::copy_file(run_path(name) + "/log.h5", copy / "log.h5");
      const LogTables killed = read_log(copy / "log.h5").tables;
      recover_log(copy / "log.h5");
      const LogTables recovered = read_log(copy / "log.h5").tables;
      expect_rows_of(recovered, expected, last, latest.checkpoint ? last_evaluation_of(*latest.checkpoint) : 0);
      expect_rows_of(recovered, killed, kSteps);
      if (HasFailure()) return;
    }
    expect_same_end(name, whole, kSteps);
    EXPECT_TRUE(fs::exists(run_path(name) + "/config.ini"));
    EXPECT_EQ(fs::exists(vocabulary_in(run_path(name))), fs::exists(vocabulary_in(run_path(whole))));
    if (HasFailure()) return;
  }
  EXPECT_EQ(kills, kKills);
  EXPECT_GT(before_the_log + before_a_checkpoint, 0);
  EXPECT_GT(after_a_checkpoint, 0);
}

std::string g_awaited;
volatile sig_atomic_t g_signal = 0;

/// Sends the signal, once, as soon as the file awaited is there.
void signal_when_there(int) {
  if (g_signal == 0 || access(g_awaited.c_str(), F_OK) != 0) return;
  const int signal = g_signal;
  g_signal = 0;
  raise(signal);
}

/// For a child: it sends itself `signal` some milliseconds of its own time after `file` is there.
void signal_after(const std::string& file, int signal) {
  g_awaited = file;
  g_signal = signal;
  struct sigaction action = {};
  action.sa_handler = signal_when_there;
  action.sa_flags = SA_RESTART;
  sigaction(SIGVTALRM, &action, nullptr);
  const itimerval every = {{0, 4000}, {0, 4000}};
  setitimer(ITIMER_VIRTUAL, &every, nullptr);
}

TEST_F(Resume, ASignalEndsARunInGoodOrder) {
  const std::vector<std::string> overrides = with_rhythm({"model.dropout=0.1", "train.batch_size=32"});
  ASSERT_EQ(wait_for(start(overrides, "whole")), static_cast<int>(LogStatus::finished) << 8);
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string name = "signal" + std::to_string(signal);
    const pid_t pid = start_child([&] {
      signal_after(run_path(name) + "/log.h5", signal);
      const TrainOutcome outcome = train_run(request(overrides, name));
      return outcome.status == LogStatus::interrupted && outcome.signal == signal ? 0 : 1;
    });
    const int status = wait_for(pid);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0);
    const LogContents interrupted = log(name);
    EXPECT_EQ(interrupted.status, std::vector<LogStatus>{LogStatus::interrupted});
    const LatestCheckpoint latest = latest_checkpoint(checkpoints_in(run_path(name)));
    ASSERT_TRUE(latest.checkpoint);
    EXPECT_EQ(latest.checkpoint->step, interrupted.tables.train.step.back()) << "the step under way was kept";
    EXPECT_LT(latest.checkpoint->step, kSteps);
    const auto summary = nlohmann::json::parse(read_text(run_path(name) + "/summary.json"));
    EXPECT_EQ(summary.at("status"), "interrupted");
    EXPECT_EQ(read_events(run_path(name) + "/events.jsonl").back().at("kind"), "interrupted");
    EXPECT_EQ(resume(overrides, name).status, LogStatus::finished);
    expect_same_end(name, "whole", kSteps);
  }
}

TEST_F(Resume, ADamagedNewestCheckpointIsPassedOver) {
  const std::vector<std::string> overrides = {"train.checkpoint_every=5", "train.keep_checkpoints=3", "eval.every=7",
                                              "model.dropout=0.1"};
  train_run(request(overrides, "whole"));
  train_run(request(overrides));
  const std::string newest = checkpoint_path(checkpoints_in(run_path()), 20);
  fs::resize_file(newest, fs::file_size(newest) / 2);
  ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(resume(overrides).status, LogStatus::finished);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  EXPECT_NE(said.find("ropewalk: warning: checkpoint passed over: "), std::string::npos) << said;
  EXPECT_NE(said.find(newest), std::string::npos) << said;
  EXPECT_NE(said.find("from step 15"), std::string::npos) << said;
  expect_same_end("run", "whole", 20);
}

TEST_F(Resume, AFinishedRunStaysAsItIs) {
  train_run(request({}, "whole"));
  train_run(request());
  EXPECT_EQ(resume({}).status, LogStatus::finished);
  expect_same_end("run", "whole", 20);
}

TEST_F(Resume, ADivergenceThatTrainingWentOnAfterIsNotForgotten) {
  const std::vector<std::string> overrides = {
      "optim.lr=1e30", "optim.warmup_steps=0",     "optim.grad_clip=0", "train.on_divergence=continue",
      "train.steps=8", "train.checkpoint_every=1", "eval.every=8",      "train.keep_checkpoints=9"};
  ASSERT_EQ(train_run(request(overrides, "whole")).status, LogStatus::diverged);
  train_run(request(overrides));
  for (const int64_t step : {8, 7}) fs::remove(checkpoint_path(checkpoints_in(run_path()), step));
  EXPECT_EQ(resume(overrides).status, LogStatus::diverged);
  expect_same_end("run", "whole", 8);
  EXPECT_EQ(resume(overrides).status, LogStatus::diverged) << "nothing was left to do";
  expect_same_end("run", "whole", 8);
}

TEST_F(Resume, OtherThreadsGiveTheSameRun) {
  const std::vector<std::string> overrides = {"train.checkpoint_every=5", "train.keep_checkpoints=9",
                                              "train.batch_size=40"};
  train_run(request(overrides, "whole"));
  train_run(request(overrides));
  for (const int64_t step : {20, 15, 10}) fs::remove(checkpoint_path(checkpoints_in(run_path()), step));
  resume({"train.checkpoint_every=5", "train.batch_size=40", "train.threads=2"});
  expect_same_end("run", "whole", 20);
}

TEST_F(Resume, MoreStepsMayBeAskedFor) {
  train_run(request({"optim.schedule=constant"}));
  EXPECT_EQ(resume({"optim.schedule=constant", "train.steps=30"}).status, LogStatus::finished);
  const LogTables tables = log("run").tables;
  EXPECT_EQ(tables.train.step.size(), 30U);
  EXPECT_EQ(tables.train.step.back(), 30);
  train_run(request({"optim.schedule=constant", "train.steps=30"}, "whole"));
  const Checkpoint a = checkpoint("run", 30), b = checkpoint("whole", 30);
  for (const StoredTensor& tensor : a.file.tensors()) {
    const StoredTensor& other = b.file.tensor(tensor.name);
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end()))
        << tensor.name;
  }
}

TEST_F(Resume, WhatTheRunIsCannotChange) {
  train_run(request());
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"model.d_ff=32", "model.d_ff: 32 against 64"},
      {"position.encoding=alibi", "position.encoding: alibi against rope"},
      {"train.seed=2", "train.seed: 2 against 1"},
      {"train.batch_size=4", "train.batch_size: 4 against 8"},
      {"train.accumulate=2", "train.accumulate: 2 against 1"},
      {"train.micro_batch=1", "train.micro_batch: 1 against 0"},  // sums are rounded otherwise
      {"eval.tokens=128", "eval.tokens: 128 against 256"},
      {"optim.lr=0.01", "optim.lr: 0.01 against 0.001"},
      {"optim.schedule=linear", "optim.schedule: linear against cosine"},
      {"optim.beta2=0.5", "optim.beta2: 0.5 against 0.95"}};
  for (const auto& [change, words] : changes) {
    const std::string message = message_of<ConfigError>([&] { resume({change}); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find(run_path()), std::string::npos) << message;
  }
  // Nor before there is a checkpoint.
  fs::remove_all(checkpoints_in(run_path()));
  fs::remove(run_path() + "/events.jsonl");
  const std::string message = message_of<ConfigError>([&] { resume({"model.d_ff=32"}); });
  EXPECT_NE(message.find("model.d_ff: 32 against 64"), std::string::npos) << message;
  EXPECT_EQ(resume({}).status, LogStatus::finished);
}

TEST_F(Resume, ARunWhoseCheckpointsAreLostIsLeftAsItIs) {
  train_run(request());
  const std::string log = read_text(run_path() + "/log.h5");
  const auto refused = [&] {
    const std::string message = message_of<CheckpointError>([&] { resume({}); });
    EXPECT_NE(message.find("no checkpoint is whole"), std::string::npos) << message;
    EXPECT_EQ(read_text(run_path() + "/log.h5"), log) << "nothing that was logged may be lost";
  };
  for (const auto& file : fs::directory_iterator(checkpoints_in(run_path()))) fs::resize_file(file.path(), 100);
  refused();
  fs::remove_all(checkpoints_in(run_path()));
  refused();
}

TEST_F(Resume, ARunStoppedDuringItsLastEvaluationMakesUpForIt) {
  train_run(request());
  const LogContents whole = read_log(run_path() + "/log.h5");
  // As a kill between the last checkpoint and the evaluation leaves it.
  const LatestCheckpoint latest = latest_checkpoint(checkpoints_in(run_path()));
  ASSERT_TRUE(latest.checkpoint);
  std::vector<TensorToSave> tensors;
  for (const StoredTensor& t : latest.checkpoint->file.tensors())
    tensors.push_back({t.name, t.dtype, t.shape, t.data.data()});
  std::map<std::string, std::string> metadata = latest.checkpoint->file.metadata();
  nlohmann::json state = nlohmann::json::parse(metadata.at("state"));
  state["evaluated_step"] = -1;
  metadata["state"] = state.dump();
  metadata.erase("checksum");
  write_checkpoint(checkpoints_in(run_path()), latest.checkpoint->step, tensors, metadata, 2);
  // The log may hold the evaluation already; it is made anew and stands there once.
  EXPECT_EQ(resume({}).status, LogStatus::finished);
  const LogContents after = read_log(run_path() + "/log.h5");
  EXPECT_EQ(after.tables.eval.step, whole.tables.eval.step);
  EXPECT_EQ(after.tables.eval.loss, whole.tables.eval.loss);
}

TEST_F(Resume, OtherDataAreRefused) {
  train_run(request());
  write_text(text_path(), sentences(7000));
  const std::string message = message_of<Error>([&] { resume({}); });
  EXPECT_NE(message.find("no longer what the run was trained on"), std::string::npos) << message;
}

TEST_F(Resume, ARunThatIsGoingOnOrIsNotThereIsLeftAlone) {
  message_of<RunDirectoryError>([&] { resume({}, "absent"); });
  EXPECT_FALSE(fs::exists(run_path("absent")));
  train_run(request({"train.steps=3"}));
  const RunLock other(run_path());
  const std::string message = message_of<RunDirectoryError>([&] { resume({"train.steps=3"}); });
  EXPECT_NE(message.find("in use"), std::string::npos) << message;
}

}  // namespace
}  // namespace ropewalk
