#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "train/log_file.h"

namespace ropewalk::testing_support {

/// The size of a log that no training made.
struct LongLog {
  int64_t steps = 1000;
  int64_t layers = 4;
  int64_t kinds = 3;  ///< the last is "block"
  int64_t heads = 2;
  bool compress = true;      ///< as a finished run leaves it
  int64_t spike_step = 777;  ///< where the gradient of layer 1 stands out by a factor of kSpike, for one step
};
inline constexpr float kSpike = 1e6F;
inline constexpr int64_t kLongLogBatch = 250;  ///< rows written at once, which makes the chunks' edges uneven

inline LogSchema long_log_schema(const LongLog& size) {
  LogSchema schema;
  schema.n_layers = size.layers;
  schema.n_heads = size.heads;
  for (int64_t kind = 0; kind + 1 < size.kinds; ++kind) schema.layer_kinds.push_back("kind" + std::to_string(kind));
  schema.layer_kinds.push_back("block");
  schema.stem_kinds = {"token_embedding"};
  schema.eval_lengths = {64, 128};
  schema.positions = {0, 64};
  schema.eval_protocol = "same_tokens";
  schema.train_length = 64;
  return schema;
}

/// A number between 1 and 2 that looks random, so that a file of them does not compress to nothing.
inline float unruly(uint64_t n) {
  n = (n ^ (n >> 30U)) * 0xBF58476D1CE4E5B9U;
  n = (n ^ (n >> 27U)) * 0x94D049BB133111EBU;
  return 1 + static_cast<float>((n ^ (n >> 31U)) >> 40U) / static_cast<float>(1U << 24U);
}

/// Gradient norm of a layer and kind at a step: falls with the steps, grows with the layer.
inline float long_log_gradient(const LongLog& size, int64_t step, int64_t layer, int64_t kind) {
  const auto cell = static_cast<uint64_t>((step * size.layers + layer) * size.kinds + kind);
  const float value = unruly(cell) * 0.01F * static_cast<float>(layer + 1) / std::sqrt(static_cast<float>(step));
  return step == size.spike_step && layer == 1 ? value * kSpike : value;
}

/// Writes DIRECTORY/log.h5 with a row of everything at every step, in little memory.
inline void write_long_log(const std::string& directory, const LongLog& size) {
  LogFile file(directory + "/log.h5", long_log_schema(size),
               {"long", "[train]\n", "long_log", "0", "a host", "a cpu", "cpu", "2026-01-01T00:00:00Z"},
               {LogStatus::running}, {.compress = size.compress});
  for (int64_t begin = 1; begin <= size.steps; begin += kLongLogBatch) {
    LogTables tables;
    const int64_t end = std::min(begin + kLongLogBatch, size.steps + 1);
    for (int64_t step = begin; step < end; ++step) {
      const auto time = static_cast<float>(step);
      TrainTable& train = tables.train;
      train.step.push_back(step);
      train.loss.push_back(2 + 4 / std::sqrt(time) + 0.1F * unruly(static_cast<uint64_t>(step)));
      train.index_loss.push_back(std::nanf(""));
      train.lr.push_back(1e-3F);
      train.grad_norm.push_back(step == size.spike_step ? kSpike : unruly(static_cast<uint64_t>(step)));
      train.param_norm.push_back(10);
      train.step_time.push_back(0.1F);
      train.tokens_per_s.push_back(1000);
      train.tokens.push_back(step * 4096);
      train.wall_time.push_back(0.1 * static_cast<double>(step));
      for (auto* group : {&tables.layers.step, &tables.stem.step, &tables.residual.step, &tables.attention.step}) {
        group->push_back(step);
      }
      for (int64_t layer = 0; layer < size.layers; ++layer) {
        for (int64_t kind = 0; kind < size.kinds; ++kind) {
          const float gradient = long_log_gradient(size, step, layer, kind);
          tables.layers.grad_norm.push_back(gradient);
          tables.layers.param_norm.push_back(unruly(static_cast<uint64_t>(step + layer)));
          tables.layers.update_ratio.push_back(gradient * 0.1F);
        }
        for (int64_t head = 0; head < size.heads; ++head) {
          tables.attention.entropy.push_back(unruly(static_cast<uint64_t>(step * 31 + head)));
          tables.attention.max_logit.push_back(unruly(static_cast<uint64_t>(step * 37 + layer)) * 10);
        }
      }
      tables.stem.grad_norm.push_back(1);
      for (int64_t depth = 0; depth <= size.layers; ++depth) {
        tables.residual.grad_norm.push_back(unruly(static_cast<uint64_t>(step + depth)));
        tables.residual.rms.push_back(1);
      }
    }
    if (end > size.steps) {
      tables.eval.step = {size.steps};
      tables.eval.loss = {2, 3};
      tables.eval.loss_by_position = {2.5F, std::nanf(""), 2.5F, 3.5F};
    }
    file.write(tables);
  }
  file.write_status({LogStatus::finished});
  file.close();
}

}  // namespace ropewalk::testing_support
