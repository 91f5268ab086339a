#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "train/run_log.h"

namespace ropewalk::testing_support {

/// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ropewalk-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/// The message of the exception E that f throws; fails the test if it throws none.
template <typename E, typename F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// Runs f in a forked child and returns its wait status; the child leaves without destructors.
inline int in_fork(const std::function<int()>& f) {
  const pid_t pid = fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = f();
    } catch (const std::exception&) {
      code = 98;
    }
    _exit(code);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

// ------------------------------------------------------------------------------- a log whose values follow a formula

inline LogSchema example_schema() {
  LogSchema s;
  s.entries = {17};
  s.n_layers = 3;
  s.n_heads = 2;
  s.layer_kinds = {"attention_norm", "attention.query", "ffn.down", "block"};
  s.stem_kinds = {"token_embedding", "final_norm"};
  s.eval_lengths = {64, 96, 128};
  s.positions = {0, 32, 64, 96};
  s.eval_protocol = "same_tokens";
  s.train_length = 64;
  return s;
}

inline LogHeader example_header() {
  return {"run-1", "[model]\nn_layers = 3\n", "ropewalk train a.ini", "0.1.0", "host", "a cpu",
          "cpu",   "2026-11-29T12:48:00Z"};
}

/// Value `index` of column `column` in the row of `step`; exact in float.
inline float formula(int64_t step, int column, std::size_t index) {
  return static_cast<float>(step % 100000) + 0.125F * static_cast<float>(column) +
         0.015625F * static_cast<float>(index % 8);
}

inline std::vector<float> formula_row(int64_t step, int column, std::size_t size) {
  std::vector<float> row(size);
  for (std::size_t i = 0; i < size; ++i) row[i] = formula(step, column, i);
  return row;
}

constexpr int64_t kLayersEvery = 3, kEvalEvery = 10;

inline void append_step(RunLog& log, int64_t step) {
  log.append(TrainRow{.step = step,
                      .loss = formula(step, 0, 0),
                      .index_loss = formula(step, 16, 0),
                      .lr = formula(step, 1, 0),
                      .grad_norm = formula(step, 2, 0),
                      .param_norm = formula(step, 3, 0),
                      .step_time = formula(step, 4, 0),
                      .tokens_per_s = formula(step, 5, 0),
                      .tokens = step * 4096,
                      .wall_time = static_cast<double>(step) / 4});
  if (step % kLayersEvery == 0) {
    const auto a = formula_row(step, 6, 12), b = formula_row(step, 7, 12), c = formula_row(step, 8, 12),
               d = formula_row(step, 9, 2), e = formula_row(step, 10, 4), f = formula_row(step, 11, 4),
               g = formula_row(step, 12, 6), h = formula_row(step, 13, 6);
    log.append(LayersRow{step, a, b, c});
    log.append(StemRow{step, d});
    log.append(ResidualRow{step, e, f});
    log.append(AttentionRow{step, g, h});
  }
  if (step % kEvalEvery == 0) {
    const auto a = formula_row(step, 14, 3), b = formula_row(step, 15, 12);
    log.append(EvalRow{step, a, {}, {}, b});
  }
}

/// Fails unless `column` holds the formula for each of `steps`.
inline void expect_formula(const std::vector<int64_t>& steps, const std::vector<float>& column, int number,
                           std::size_t size, const char* what) {
  ASSERT_EQ(column.size(), steps.size() * size) << what;
  for (std::size_t row = 0; row < steps.size(); ++row) {
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(column[row * size + i], formula(steps[row], number, i)) << what << " at step " << steps[row];
    }
  }
}

/// Fails unless every row is right, and each group holds exactly its steps from 1 on, up to at least `last`.
inline void expect_log(const LogTables& t, int64_t last) {
  const auto steps_of = [&](const std::vector<int64_t>& steps, int64_t every, const char* what) {
    ASSERT_GE(static_cast<int64_t>(steps.size()), last / every) << what;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_EQ(steps[i], every * static_cast<int64_t>(i + 1)) << what;
    }
  };
  ASSERT_NO_FATAL_FAILURE(steps_of(t.train.step, 1, "train"));
  ASSERT_NO_FATAL_FAILURE(steps_of(t.layers.step, kLayersEvery, "layers"));
  ASSERT_NO_FATAL_FAILURE(steps_of(t.stem.step, kLayersEvery, "stem"));
  ASSERT_NO_FATAL_FAILURE(steps_of(t.residual.step, kLayersEvery, "residual"));
  ASSERT_NO_FATAL_FAILURE(steps_of(t.attention.step, kLayersEvery, "attention"));
  ASSERT_NO_FATAL_FAILURE(steps_of(t.eval.step, kEvalEvery, "eval"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.loss, 0, 1, "loss"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.index_loss, 16, 1, "index_loss"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.lr, 1, 1, "lr"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.grad_norm, 2, 1, "grad_norm"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.param_norm, 3, 1, "param_norm"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.step_time, 4, 1, "step_time"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.train.step, t.train.tokens_per_s, 5, 1, "tokens_per_s"));
  for (std::size_t i = 0; i < t.train.step.size(); ++i) {
    ASSERT_EQ(t.train.tokens[i], t.train.step[i] * 4096);
    ASSERT_EQ(t.train.wall_time[i], static_cast<double>(t.train.step[i]) / 4);
  }
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.layers.step, t.layers.grad_norm, 6, 12, "layers grad_norm"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.layers.step, t.layers.param_norm, 7, 12, "layers param_norm"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.layers.step, t.layers.update_ratio, 8, 12, "update_ratio"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.stem.step, t.stem.grad_norm, 9, 2, "stem"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.residual.step, t.residual.grad_norm, 10, 4, "residual grad_norm"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.residual.step, t.residual.rms, 11, 4, "rms"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.attention.step, t.attention.entropy, 12, 6, "entropy"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.attention.step, t.attention.max_logit, 13, 6, "max_logit"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.eval.step, t.eval.loss, 14, 3, "eval loss"));
  ASSERT_NO_FATAL_FAILURE(expect_formula(t.eval.step, t.eval.loss_by_position, 15, 12, "loss_by_position"));
}

}  // namespace ropewalk::testing_support
