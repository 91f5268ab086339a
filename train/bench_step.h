#pragma once

#include <cstdint>
#include <string>

#include "train/config_resolve.h"

namespace ropewalk {

/// What training steps of one configuration cost on this machine, now. Medians over the timed steps.
struct BenchResult {
  std::string name;
  int64_t parameters = 0;
  int64_t steps = 0;
  double step_ms = 0;
  double step_ms_least = 0;
  double step_ms_greatest = 0;
  double tokens_per_s = 0;
  double gflops = 0;          ///< matrix products forward and backward, what the mask hides not counted
  double page_faults = 0;     ///< a step
  double arena_bytes = 0;     ///< activations and scratch of all workers
  double peak_rss_bytes = 0;  ///< of the process
};

/// The sizes that models are compared at: XS, S, M or L. Throws ConfigError for another name.
///   XS  d_model 32,  2 layers, 2 heads, context 32,  batch 8,  65 tokens        S  64, 4, 4, 64, 32, 65
///   M   d_model 128, 6 layers, 4 heads, context 128, batch 32, 256 tokens       L  384, 6, 6, 256, 16, 256
ResolvedConfig bench_config(const std::string& size, const std::vector<std::string>& overrides);

/// Trains on uniformly random tokens: `warmup` steps, then `steps` timed ones, and more until `seconds` are measured.
BenchResult bench_step(const ResolvedConfig& config, const std::string& name, int64_t warmup, int64_t steps,
                       double seconds);

std::string bench_text(const BenchResult& result);
std::string bench_json(const BenchResult& result);

}  // namespace ropewalk
