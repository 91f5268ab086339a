#pragma once

#include <string>
#include <vector>

#include "experiments/run_result.h"

namespace ropewalk::testing_support {

/// A finished run, trained at 64 and evaluated at 64, 96 and 128.
inline RunResult finished_run(const std::string& variant, int64_t seed, std::vector<double> loss) {
  RunResult run;
  run.variant = variant;
  run.id = variant + "-s" + std::to_string(seed);
  run.seed = seed;
  run.status = "finished";
  run.train_length = 64;
  run.protocol = "same_tokens";
  run.lengths = {64, 96, 128};
  run.lengths.resize(loss.size());
  run.best_loss = loss;
  run.loss = std::move(loss);
  return run;
}

inline RunResult ended_run(const std::string& variant, int64_t seed, const std::string& status,
                           const std::string& reason = "") {
  RunResult run;
  run.variant = variant;
  run.id = variant + "-s" + std::to_string(seed);
  run.seed = seed;
  run.status = status;
  run.reason = reason;
  return run;
}

}  // namespace ropewalk::testing_support
