#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/bench/model.h"

namespace ropewalk {

struct StepBenchRequest {
  BenchPass pass = BenchPass::train;
  int64_t warmup = 3;
  int64_t least_steps = 5;
  double seconds = 3;  ///< at least so long is measured; a third as long again goes to the times by op
};

/// What passes of one configuration cost on this machine, now. Times are medians.
struct StepBench {
  /// One op, or one part of a step that is no op.
  struct Op {
    std::string name;
    double calls = 0;  ///< a pass
    double forward_ms = 0;
    double backward_ms = 0;
    double step_ms = 0;  ///< outside of forward and backward
    double share = 0;    ///< of the sum over all ops
  };
  /// The ops of one kind of matrix product, with all that is fused into them.
  struct Product {
    std::string name;  ///< "linear", "attention"
    double ms = 0;
    double share = 0;
    double gflops = 0;
    double fma_share = 0;  ///< of the peak of one thread
  };

  std::string name;
  BenchPass pass = BenchPass::train;
  std::string dtype;
  int64_t threads = 1;
  int64_t parameters = 0;
  int64_t steps = 0;
  double tokens = 0;  ///< of a pass
  double step_ms = 0;
  double step_ms_least = 0;
  double step_ms_greatest = 0;
  double tokens_per_s = 0;
  double flops_per_token = 0;  ///< matrix products, what the mask hides not counted
  double gflops = 0;
  double fma_peak_gflops = 0;  ///< of all threads; best of bursts before, between and after the timed passes
  double fma_share = 0;        ///< gflops / fma_peak_gflops
  double page_faults = 0;      ///< a pass
  double arena_bytes = 0;      ///< activations and scratch of all workers
  double peak_rss_bytes = 0;   ///< of the process, after the timed passes
  std::vector<Op> ops;         ///< longest first; from passes of their own, on one thread
  std::vector<Product> products;
};

StepBench bench_step(const BenchSubject& subject, const StepBenchRequest& request);

std::string to_text(const StepBench& result);
std::string to_json(const StepBench& result);

}  // namespace ropewalk
