#pragma once

#include <fcntl.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "storage_testing.h"
#include "train/checkpoint_file.h"
#include "train/config_resolve.h"
#include "train/read_log.h"
#include "train/run_setup.h"
#include "train/train_run.h"
#include "train/trainer.h"

namespace ropewalk::testing_support {

/// Sentences of a small grammar, always the same, at least `bytes` long.
inline std::string sentences(std::size_t bytes) {
  const std::vector<std::string> subjects = {"the rope", "a strand", "the walker", "one hand", "the long shed"};
  const std::vector<std::string> verbs = {"turns", "lays", "pulls", "holds", "twists"};
  const std::vector<std::string> objects = {"the yarn", "a hook", "three strands", "the post", "tar and hemp"};
  std::mt19937 random(11);
  std::string text;
  while (text.size() < bytes) {
    text += subjects[random() % 5] + " " + verbs[random() % 5] + " " + objects[random() % 5] + ".\n";
  }
  return text;
}

/// A directory with a text of sentences, and the configuration of a tiny model over it.
class TinyTraining : public ::testing::Test {
 protected:
  TinyTraining() { write_text(text_path(), sentences(6000)); }

  std::string text_path() const { return directory_ / "text.txt"; }
  std::string run_path(const std::string& name = "run") const { return directory_ / name; }

  ResolvedConfig resolved(const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {
        "model.n_layers=2",      "model.d_model=16", "model.n_heads=2",         "train.context_length=16",
        "train.batch_size=8",    "train.steps=20",   "optim.warmup_steps=2",    "eval.every=0",
        "eval.lengths=16,24,32", "eval.tokens=256",  "data.path=" + text_path()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_config("", all);
  }
  Config config(const std::vector<std::string>& overrides = {}) const { return resolved(overrides).config; }
  TrainRequest request(const std::vector<std::string>& overrides = {}, const std::string& name = "run") const {
    return {.config = resolved(overrides), .directory = run_path(name), .command_line = "ropewalk train tiny.ini"};
  }

  TemporaryDirectory directory_;
};

/// A model at its first values and its trainer.
struct Training {
  explicit Training(const Config& config)
      : setup(set_up(config)), trainer(setup.config, *setup.model, *setup.dataset, *setup.workers) {
    setup.model->initialize(static_cast<uint64_t>(config.train.seed));
  }
  const ParameterSet& parameters() const { return setup.model->parameters(); }
  Tensor parameter(const std::string& name) const {
    const int32_t index = parameters().find(name);
    if (index < 0) throw std::runtime_error("no parameter " + name);
    return parameters().value(index);
  }

  RunSetup setup;
  Trainer trainer;
};

inline void fill(const Tensor& x, double value) {
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, value);
}

template <typename T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const char*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

inline std::vector<char> bytes_of(const Tensor& x) {
  const auto* begin = static_cast<const char*>(x.bytes);
  return {begin, begin + x.size_bytes()};
}

/// Columns that tell how fast a machine was, not what was computed.
inline bool tells_time(const std::string& column) {
  return column == "step_time" || column == "tokens_per_s" || column == "wall_time";
}

/// Fails unless every group holds the first rows of `whole`, bit for bit: all of them, or at least those up to `last`.
inline void expect_rows_of(const LogTables& tables, const LogTables& whole, int64_t last, int64_t last_evaluation) {
  const auto compare = [&](const char* group, const auto& part, const auto& full) {
    ASSERT_LE(part.step.size(), full.step.size()) << group;
    const std::size_t rows = part.step.size();
    std::size_t committed = 0;
    const int64_t through = std::string_view(group) == "eval" ? last_evaluation : last;
    while (committed < full.step.size() && full.step[committed] <= through) ++committed;
    ASSERT_GE(rows, committed) << group << ": rows up to step " << last << " were flushed";
    EXPECT_TRUE(std::equal(part.step.begin(), part.step.end(), full.step.begin())) << group;
    std::vector<std::vector<char>> columns;
    for_each_column(part, [&](const ColumnSpec&, const auto& values) { columns.push_back(bytes_of(values)); });
    std::size_t at = 0;
    for_each_column(full, [&](const ColumnSpec& spec, const auto& values) {
      const std::vector<char> expected = bytes_of(values);
      const std::vector<char>& column = columns[at++];
      const std::size_t row_bytes = full.step.empty() ? 0 : expected.size() / full.step.size();
      ASSERT_EQ(column.size(), rows * row_bytes) << group << "/" << spec.name;
      if (tells_time(spec.name)) return;
      EXPECT_TRUE(std::equal(column.begin(), column.end(), expected.begin())) << group << "/" << spec.name;
    });
  };
  compare("train", tables.train, whole.train);
  compare("layers", tables.layers, whole.layers);
  compare("stem", tables.stem, whole.stem);
  compare("residual", tables.residual, whole.residual);
  compare("attention", tables.attention, whole.attention);
  compare("eval", tables.eval, whole.eval);
}

inline void expect_rows_of(const LogTables& tables, const LogTables& whole, int64_t last) {
  expect_rows_of(tables, whole, last, last);
}

/// The step of the last evaluation that a checkpoint comes after: those of its log were flushed before it was written.
inline int64_t last_evaluation_of(const Checkpoint& checkpoint) {
  return nlohmann::json::parse(checkpoint.file.metadata().at("state")).at("evaluated_step").get<int64_t>();
}

/// A child process with its standard error thrown away. Returns its process id.
inline pid_t start_child(const std::function<int()>& f) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDERR_FILENO);
  int code = 99;
  try {
    code = f();
  } catch (const std::exception&) {
    code = 98;
  }
  _exit(code);
}

inline int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace ropewalk::testing_support
