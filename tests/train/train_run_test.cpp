#include "train/train_run.h"

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/error.h"
#include "framework/error.h"
#include "train/checkpoint_file.h"
#include "train/events.h"
#include "train/run_directory.h"
#include "train/run_state.h"
#include "train/signals.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

class TrainRun : public TinyTraining {
 protected:
  TrainRun() { ::testing::internal::CaptureStderr(); }
  ~TrainRun() override { ::testing::internal::GetCapturedStderr(); }

  LogTables tables(const std::string& name = "run") const { return read_log(run_path(name) + "/log.h5").tables; }
  nlohmann::json summary(const std::string& name = "run") const {
    return nlohmann::json::parse(read_text(run_path(name) + "/summary.json"));
  }
  std::vector<std::string> events(const std::string& name = "run") const {
    std::vector<std::string> kinds;
    for (const auto& event : read_events(run_path(name) + "/events.jsonl")) kinds.push_back(event.at("kind"));
    return kinds;
  }
  std::vector<std::string> files(const std::string& path) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

using Steps = std::vector<int64_t>;

TEST_F(TrainRun, LeavesAllFilesAndTheRowsThatWereAskedFor) {
  const TrainOutcome outcome = train_run(request({"log.every=3", "log.layers_every=4", "log.attention_every=7",
                                                  "eval.every=8", "train.steps=17", "train.checkpoint_every=5"}));
  EXPECT_EQ(outcome.status, LogStatus::finished);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.directory, run_path());
  EXPECT_EQ(files(run_path()),
            (std::vector<std::string>{".lock", "checkpoints", "config.ini", "events.jsonl", "log.h5", "summary.json"}));
  EXPECT_EQ(files(run_path() + "/checkpoints"),
            (std::vector<std::string>{"step-000000000015.safetensors", "step-000000000017.safetensors"}));
  EXPECT_FALSE(run_is_locked(run_path()));

  const LogContents log = read_log(run_path() + "/log.h5");
  EXPECT_EQ(log.status, std::vector<LogStatus>{LogStatus::finished});
  EXPECT_EQ(log.schema.entries, Steps{1});
  EXPECT_EQ(log.schema.eval_lengths, (Steps{16, 24, 32}));
  EXPECT_EQ(log.schema.eval_protocol, "same_tokens");
  EXPECT_EQ(log.schema.train_length, 16);
  EXPECT_EQ(log.header.command_line, "ropewalk train tiny.ini");
  EXPECT_EQ(log.header.run_id, "run");
  EXPECT_EQ(log.tables.train.step, (Steps{1, 3, 6, 9, 12, 15, 17}));
  EXPECT_EQ(log.tables.layers.step, (Steps{1, 4, 8, 12, 16, 17}));
  EXPECT_EQ(log.tables.stem.step, log.tables.layers.step);
  EXPECT_EQ(log.tables.residual.step, log.tables.layers.step);
  EXPECT_EQ(log.tables.attention.step, (Steps{1, 7, 14, 17}));
  EXPECT_EQ(log.tables.eval.step, (Steps{8, 16, 17}));
  EXPECT_EQ(log.tables.train.tokens.back(), 17 * 8 * 16);
  // The last step has two: before its evaluation, which may take a while, and after.
  EXPECT_EQ(events(), (std::vector<std::string>{"started", "checkpoint", "checkpoint", "checkpoint", "checkpoint",
                                                "checkpoint", "finished"}));
}

TEST_F(TrainRun, LoggedNormsBelongTogether) {
  train_run(request({"log.layers_every=1", "train.steps=6"}));
  const LogContents log = read_log(run_path() + "/log.h5");
  const std::size_t kinds = log.schema.layer_kinds.size(), stems = log.schema.stem_kinds.size();
  ASSERT_EQ(log.schema.layer_kinds.back(), "block");
  for (std::size_t row = 0; row < 6; ++row) {
    double whole = 0;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const float* cells = log.tables.layers.grad_norm.data() + (row * 2 + layer) * kinds;
      double block = 0;
      for (std::size_t kind = 0; kind + 1 < kinds; ++kind) block += std::pow(static_cast<double>(cells[kind]), 2);
      EXPECT_NEAR(block, std::pow(static_cast<double>(cells[kinds - 1]), 2), 1e-5 * block);
      whole += block;
    }
    for (std::size_t kind = 0; kind < stems; ++kind) {
      const float norm = log.tables.stem.grad_norm[row * stems + kind];
      if (!std::isnan(norm)) whole += std::pow(static_cast<double>(norm), 2);
    }
    EXPECT_NEAR(whole, std::pow(static_cast<double>(log.tables.train.grad_norm[row]), 2), 1e-5 * whole);
    for (std::size_t i = row * 2 * kinds; i < (row + 1) * 2 * kinds; ++i) {
      EXPECT_GT(log.tables.layers.update_ratio[i], 0.0F);
    }
  }
}

TEST_F(TrainRun, ItsConfigurationLoadsAgainAsItWas) {
  const std::vector<std::string> overrides = {"position.encoding=t5", "model.dropout=0.1", "optim.lr=0.003",
                                              "eval.protocol=sliding", "train.steps=3"};
  train_run(request(overrides));
  const ResolvedConfig before = resolved(overrides), again = load_config(run_path() + "/config.ini", {});
  EXPECT_TRUE(differing_keys(before.config, again.config).empty());
  EXPECT_EQ(print_config(again, false), print_config(before, false));
  EXPECT_EQ(read_log(run_path() + "/log.h5").header.config, print_config(before, false));
}

TEST_F(TrainRun, ItsSummaryHoldsWhatItCameTo) {
  train_run(request({"eval.every=5", "train.steps=12", "position.encoding=learned", "position.max_length=24"}));
  const nlohmann::json s = summary();
  EXPECT_EQ(s.at("status"), "finished");
  EXPECT_EQ(s.at("run_id"), "run");
  EXPECT_EQ(s.at("steps"), 12);
  EXPECT_EQ(s.at("seed"), 1);
  EXPECT_EQ(s.at("tokens"), 12 * 8 * 16);
  EXPECT_GT(s.at("parameters").get<int64_t>(), 256 * 16);
  EXPECT_GT(s.at("tokens_per_s").get<double>(), 0.0);
  EXPECT_EQ(s.at("final").at("step"), 12);
  const nlohmann::json& eval = s.at("final").at("eval");
  EXPECT_EQ(eval.at("protocol"), "same_tokens");
  EXPECT_EQ(eval.at("train_length"), 16);
  EXPECT_EQ(eval.at("lengths"), (Steps{16, 24, 32}));
  EXPECT_TRUE(eval.at("loss")[2].is_null()) << "beyond the table";
  EXPECT_FALSE(s.contains("diverged"));
  const LogTables log = tables();
  EXPECT_FLOAT_EQ(eval.at("loss")[0].get<float>(), log.eval.loss[2 * 3]);
  EXPECT_FLOAT_EQ(s.at("final").at("train_loss").get<float>(), log.train.loss.back());
  EXPECT_FLOAT_EQ(s.at("best").at("loss")[1].get<float>(),
                  std::min({log.eval.loss[1], log.eval.loss[4], log.eval.loss[7]}));
}

TEST_F(TrainRun, ItsSummarySaysThatItIsGoingOn) {
  train_run(request({"train.steps=2", "optim.schedule=constant"}));
  TrainRequest more = request({"train.steps=1000000", "optim.schedule=constant"});
  more.resume = true;
  const pid_t pid = start_child([&] { return static_cast<int>(train_run(more).status); });
  while (summary().at("status") == "finished" && waitpid(pid, nullptr, WNOHANG) == 0) usleep(1000);
  kill(pid, SIGKILL);
  wait_for(pid);
  const nlohmann::json s = summary();
  EXPECT_EQ(s.at("status"), "running");
  EXPECT_EQ(s.at("steps"), 1000000);
  EXPECT_EQ(s.at("final").at("step"), 2) << "where it went on from";
  EXPECT_FALSE(s.contains("error"));
}

TEST_F(TrainRun, TasksAreScoredByLength) {
  train_run(request({"data.source=task", "data.task=reverse", "data.max_length=5", "eval.lengths=3,5,10"}));
  const nlohmann::json eval = summary().at("final").at("eval");
  EXPECT_EQ(eval.at("protocol"), "task");
  EXPECT_EQ(eval.at("train_length"), 5);
  EXPECT_EQ(eval.at("accuracy").size(), 3U);
  const LogTables log = tables();
  ASSERT_EQ(log.eval.accuracy.size(), 3U);
  EXPECT_FLOAT_EQ(log.eval.accuracy[2], eval.at("accuracy")[2].get<float>());
  EXPECT_FLOAT_EQ(log.eval.exact_match[0], eval.at("exact_match")[0].get<float>());
}

TEST_F(TrainRun, PairsAreLoggedByStackAndScoredByLength) {
  train_run(request({"model.arch=encoder_decoder", "data.source=task", "data.task=reverse", "data.max_length=5",
                     "eval.lengths=3,5,10", "log.layers_every=1", "train.steps=4", "optim.warmup_steps=0"}));
  const nlohmann::json eval = summary().at("final").at("eval");
  EXPECT_EQ(eval.at("protocol"), "pairs");
  EXPECT_EQ(eval.at("train_length"), 5);
  EXPECT_EQ(eval.at("exact_match").size(), 3U);
  EXPECT_EQ(summary().at("tokens"), 4 * 8 * (5 + 6));
  const LogContents log = read_log(run_path() + "/log.h5");
  EXPECT_EQ(log.schema.eval_protocol, "pairs");
  EXPECT_EQ(log.schema.positions.size(), 11U) << "of the longest target";
  EXPECT_EQ(log.tables.eval.accuracy.size(), 3U);
  const std::vector<std::string>& names = log.schema.layer_kinds;
  EXPECT_EQ(names.front(), "encoder.attention_norm");
  EXPECT_EQ(names.back(), "block");
  const std::size_t kinds = names.size(), stems = log.schema.stem_kinds.size();
  for (std::size_t row = 0; row < 4; ++row) {
    double whole = 0;
    for (std::size_t i = 0; i < 2 * kinds; ++i) {
      const float norm = log.tables.layers.grad_norm[row * 2 * kinds + i];
      EXPECT_GT(log.tables.layers.update_ratio[row * 2 * kinds + i], 0.0F) << names[i % kinds];
      if (names[i % kinds].ends_with("block")) whole += std::pow(static_cast<double>(norm), 2);
    }
    for (std::size_t kind = 0; kind < stems; ++kind) {
      const float norm = log.tables.stem.grad_norm[row * stems + kind];
      if (!std::isnan(norm)) whole += std::pow(static_cast<double>(norm), 2);
    }
    EXPECT_NEAR(whole, std::pow(static_cast<double>(log.tables.train.grad_norm[row]), 2), 1e-5 * whole);
  }
}

TEST_F(TrainRun, AnEncoderTrainsOnTextByItsMaskedTokens) {
  train_run(request({"model.arch=encoder", "train.steps=150", "train.batch_size=32", "optim.lr=1e-2",
                     "data.mask_probability=0.2", "eval.every=75", "eval.tokens=2048"}));
  const LogContents log = read_log(run_path() + "/log.h5");
  EXPECT_EQ(log.schema.eval_protocol, "same_tokens");
  EXPECT_TRUE(log.tables.eval.accuracy.empty());
  EXPECT_NEAR(log.tables.train.loss.front(), std::log(257.0), 0.2);
  EXPECT_EQ(log.tables.train.tokens.back(), 150 * 32 * 16);
  ASSERT_EQ(log.tables.eval.step, (Steps{75, 150}));
  EXPECT_LT(log.tables.eval.loss[3], 3.0) << "what the frequencies of the letters give, and better";
  EXPECT_NE(read_text(run_path() + "/config.ini").find("arch = encoder"), std::string::npos);
}

TEST_F(TrainRun, KeepsAsManyCheckpointsAsAskedFor) {
  train_run(request({"train.checkpoint_every=3", "train.keep_checkpoints=4"}));
  EXPECT_EQ(files(run_path() + "/checkpoints"),
            (std::vector<std::string>{"step-000000000012.safetensors", "step-000000000015.safetensors",
                                      "step-000000000018.safetensors", "step-000000000020.safetensors"}));
}

TEST_F(TrainRun, ThreadsChangeNothingInTheLog) {
  const std::vector<std::string> common = {"model.dropout=0.1", "eval.every=6", "log.layers_every=2",
                                           "train.batch_size=40"};
  for (const std::string threads : {"1", "3"}) {
    std::vector<std::string> all = common;
    all.push_back("train.threads=" + threads);
    train_run(request(all, "run" + threads));
  }
  const LogTables one = tables("run1");
  expect_rows_of(tables("run3"), one, 20);
}

TEST_F(TrainRun, ADivergedRunStopsAndSaysWhere) {
  const TrainOutcome outcome =
      train_run(request({"optim.lr=1e30", "optim.warmup_steps=0", "optim.grad_clip=0", "train.checkpoint_every=1"}));
  EXPECT_EQ(outcome.status, LogStatus::diverged);
  const LogContents log = read_log(run_path() + "/log.h5");
  EXPECT_EQ(log.status, std::vector<LogStatus>{LogStatus::diverged});
  const int64_t step = log.tables.train.step.back();
  EXPECT_GT(step, 1);
  EXPECT_LT(step, 6);
  EXPECT_EQ(log.tables.layers.step.back(), step) << "the gradients just then are in the log";
  EXPECT_FALSE(std::isfinite(log.tables.train.loss.back()) && std::isfinite(log.tables.train.grad_norm.back()));
  const nlohmann::json s = summary();
  EXPECT_EQ(s.at("status"), "diverged");
  EXPECT_EQ(s.at("diverged").at("step"), step);
  const std::string module = s.at("diverged").at("module");
  EXPECT_TRUE(module.starts_with("blocks.") || module == "token_embedding" || module == "final_norm" ||
              module == "lm_head" || module == "loss")
      << module;
  EXPECT_EQ(events().back(), "diverged");
  // The last checkpoint is from before.
  const LatestCheckpoint latest = latest_checkpoint(run_path() + "/checkpoints");
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, step - 1);
}

TEST_F(TrainRun, OnRequestItGoesOnAfterDivergence) {
  const TrainOutcome outcome = train_run(request(
      {"optim.lr=1e30", "optim.warmup_steps=0", "optim.grad_clip=0", "train.on_divergence=continue", "train.steps=8"}));
  EXPECT_EQ(outcome.status, LogStatus::diverged) << "it ran to its end, but ended on a step that is not finite";
  EXPECT_EQ(tables().train.step.back(), 8);
  EXPECT_LT(summary().at("diverged").at("step"), 6);
}

TEST_F(TrainRun, WhatCannotStartSaysWhyAndLeavesNothing) {
  const auto refused = [&](const std::vector<std::string>& overrides, const std::string& part) {
    const std::string message = message_of<DataError>([&] { train_run(request(overrides)); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(run_path()));
  };
  refused({"eval.lengths=16,2000", "train.context_length=64"}, "2000");
  refused({"data.path=" + run_path("absent.txt")}, "absent.txt");
  write_text(run_path("empty.txt"), "");
  refused({"data.path=" + run_path("empty.txt")}, "empty.txt");
  write_text(run_path("broken.txt"), sentences(2000) + "\xff\xfe");
  refused({"data.path=" + run_path("broken.txt"), "data.tokenizer=chars"}, "broken.txt");

  const std::string problem = message_of<ConfigError>([&] {
    train_run(request({"data.source=task", "data.task=copy", "data.max_length=20"}));
  });
  EXPECT_NE(problem.find("data.max_length = 20 takes 42 tokens"), std::string::npos) << problem;
  const std::string size = message_of<std::runtime_error>([&] {
    train_run(request({"data.source=task", "data.max_length=5", "model.vocab_size=7"}));
  });
  EXPECT_NE(size.find("model.vocab_size = 7"), std::string::npos) << size;
  EXPECT_FALSE(fs::exists(run_path()));
}

TEST_F(TrainRun, APlaceThatCannotBeUsedIsRefused) {
  write_text(run_path("file"), "x");
  const std::string below_a_file = message_of<RunDirectoryError>([&] { train_run(request({}, "file/run")); });
  EXPECT_NE(below_a_file.find(run_path("file/run")), std::string::npos) << below_a_file;

  fs::create_directory(run_path("used"));
  write_text(run_path("used/notes.txt"), "mine");
  const std::string used = message_of<RunDirectoryError>([&] { train_run(request({}, "used")); });
  EXPECT_NE(used.find("not empty"), std::string::npos) << used;
  EXPECT_EQ(files(run_path("used")), std::vector<std::string>{"notes.txt"});

  if (geteuid() == 0) return;  // root may write everywhere
  fs::create_directory(run_path("closed"));
  fs::permissions(run_path("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  const std::string closed = message_of<RunDirectoryError>([&] { train_run(request({}, "closed/run")); });
  EXPECT_NE(closed.find(run_path("closed/run")), std::string::npos) << closed;
  fs::permissions(run_path("closed"), fs::perms::owner_all);
}

TEST_F(TrainRun, ARunIsNotOverwritten) {
  train_run(request({"train.steps=2"}));
  const std::string before = read_text(run_path() + "/summary.json");
  message_of<RunDirectoryError>([&] { train_run(request({"train.steps=3"})); });
  EXPECT_EQ(read_text(run_path() + "/summary.json"), before);
}

TEST_F(TrainRun, AnUnnamedRunGetsADirectoryOfItsOwn) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_.path());
  TrainRequest unnamed = request({"train.steps=2"});
  unnamed.directory = "";
  unnamed.name = "tiny";
  const std::string first = train_run(unnamed).directory, second = train_run(unnamed).directory;
  fs::current_path(before);
  EXPECT_TRUE(first.starts_with("runs/tiny/")) << first;
  EXPECT_NE(first, second);
  EXPECT_TRUE(fs::exists(directory_ / (first + "/summary.json")));
}

TEST_F(TrainRun, WhatTheEndOfItsLogWarnsOfIsShownOnce) {
  std::thread blocker([&] {
    for (int i = 0; i < 20'000 && !fs::exists(run_path("run/log.h5")); ++i) usleep(500);
    fs::create_directory(run_path("run/log.h5.tmp"));
  });
  train_run(request({"train.steps=1000"}));
  blocker.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  ::testing::internal::CaptureStderr();
  const std::string warning = "ropewalk: warning: the log is complete but was not compressed";
  const std::size_t at = said.find(warning);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("not compressed", at + warning.size()), std::string::npos) << said;
}

TEST_F(TrainRun, WhatFailedFirstIsSaidFirstWhateverFailsAfterwards) {
  train_run(request({"train.steps=2", "optim.schedule=constant"}));
  TrainRequest more = request({"train.steps=1000", "optim.schedule=constant", "train.checkpoint_every=0"});
  more.resume = true;
  const std::string checkpoint = checkpoint_path(run_path("run/checkpoints"), 1000) + ".tmp";
  const std::string summary_file = run_path("run/summary.json.tmp");
  fs::create_directory(checkpoint);
  std::thread blocker([&] {
    for (int i = 0; i < 20'000 && summary().at("status") == "finished"; ++i) usleep(500);
    fs::create_directory(summary_file);
  });
  const std::string message = message_of<Error>([&] { train_run(more); });
  blocker.join();
  EXPECT_TRUE(message.starts_with("training stopped after step 1000: ")) << message;
  const std::size_t first = message.find(checkpoint), second = message.find(summary_file);
  ASSERT_NE(second, std::string::npos) << message;
  EXPECT_LT(first, second) << message;
  EXPECT_EQ(read_log(run_path() + "/log.h5").status, std::vector<LogStatus>{LogStatus::failed});
  EXPECT_EQ(events().back(), "failed");
}

/// The message with which a run ends that may write no file beyond `limit` bytes; empty if it came to its end.
std::string message_under_limit(const TrainRequest& request, std::size_t limit) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = start_child([&] {
    const rlimit size = {limit, limit};
    setrlimit(RLIMIT_FSIZE, &size);
    std::string message;
    try {
      train_run(request);
    } catch (const std::exception& error) {
      message = error.what();
    }
    return write(ends[1], message.data(), message.size()) == static_cast<ssize_t>(message.size()) ? 0 : 1;
  });
  close(ends[1]);
  std::string message(4096, '\0');
  message.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(ends[0], message.data(), message.size()))));
  close(ends[0]);
  const int status = wait_for(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "limit " << limit << ": wait status " << status;
  return message;
}

TEST_F(TrainRun, AFullDiskEndsARunWithWhatWasWritten) {
  // The first evaluation comes after checkpoints and makes the log grow.
  const std::vector<std::string> overrides = {"train.steps=60", "train.checkpoint_every=10", "eval.every=45",
                                              "log.layers_every=1"};
  train_run(request(overrides, "whole"));
  const LogTables whole = tables("whole");
  bool after_a_checkpoint = false;
  std::size_t too_small = 1 << 15, enough = 1 << 21;
  for (int attempt = 0; attempt < 12 && !after_a_checkpoint; ++attempt) {
    const std::size_t limit = attempt == 0 ? too_small : (too_small + enough) / 2;
    const std::string name = "limit" + std::to_string(limit);
    const std::string message = message_under_limit(request(overrides, name), limit);
    if (message.empty()) {
      enough = limit;
      continue;
    }
    too_small = limit;
    EXPECT_NE(message.find(run_path(name)), std::string::npos) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    const LatestCheckpoint latest = latest_checkpoint(run_path(name) + "/checkpoints");
    EXPECT_TRUE(latest.warnings.empty());
    after_a_checkpoint = latest.checkpoint.has_value();
    if (fs::exists(run_path(name) + "/log.h5")) {
      recover_log(run_path(name) + "/log.h5");
      expect_rows_of(tables(name), whole, latest.checkpoint ? latest.checkpoint->step : 0,
                     latest.checkpoint ? last_evaluation_of(*latest.checkpoint) : 0);
    }
    // With room again it ends as if nothing had been.
    TrainRequest again = request(overrides, name);
    again.resume = true;
    EXPECT_EQ(train_run(again).status, LogStatus::finished);
    expect_rows_of(tables(name), whole, 60);
  }
  EXPECT_TRUE(after_a_checkpoint);
}

TEST_F(TrainRun, ACheckpointWithoutRoomLeavesTheOneBefore) {
  const std::vector<std::string> overrides = {"model.d_model=64", "train.checkpoint_every=10"};
  train_run(request(overrides, "whole"));
  const std::size_t size = fs::file_size(checkpoint_path(run_path("whole/checkpoints"), 20));
  TrainRequest first =
      request({"model.d_model=64", "train.checkpoint_every=10", "train.steps=10", "optim.schedule=constant"});
  train_run(first);
  TrainRequest more = request({"model.d_model=64", "train.checkpoint_every=10", "optim.schedule=constant"});
  more.resume = true;
  const std::string message = message_under_limit(more, size - 1);
  EXPECT_NE(message.find("step-000000000020.safetensors"), std::string::npos) << message;
  EXPECT_EQ(files(run_path("run/checkpoints")), std::vector<std::string>{"step-000000000010.safetensors"});
  EXPECT_EQ(read_log(run_path() + "/log.h5").status, std::vector<LogStatus>{LogStatus::failed});
  EXPECT_EQ(tables().train.step.size(), 20U);
  EXPECT_EQ(events().back(), "failed");
  EXPECT_EQ(summary().at("status"), "failed");
  EXPECT_NE(summary().at("error").get<std::string>().find("File too large"), std::string::npos) << summary();
  EXPECT_EQ(train_run(more).status, LogStatus::finished);
}

TEST(Signals, TheFirstIsNotedAndTheSecondLeavesAtOnce) {
  const int status = in_fork([] {
    const SignalGuard guard;
    if (SignalGuard::received() != 0) return 1;
    raise(SIGTERM);
    if (SignalGuard::received() != SIGTERM) return 2;
    raise(SIGINT);
    return 3;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

}  // namespace
}  // namespace ropewalk
