#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/bench/model.h"
#include "train/bench/rounds.h"

namespace ropewalk {

struct StepBenchRequest {
  BenchPass pass = BenchPass::train;
  /// What the timed passes take; warming up and the times by op get up to a third of it each. Each of the three makes
  /// one pass at least, however long that is.
  double seconds = 3;
  BenchSay say = {};
};

/// Timed passes that a median should have; fewer are made only where these would take more than twice the seconds that
/// are given.
inline constexpr int64_t kEnoughPasses = 5;

/// What passes of one configuration cost on this machine, now. Times are medians.
struct StepBench {
  /// One op, or one part of a step that is no op.
  struct Op {
    std::string name;
    int64_t calls = 0;  ///< a pass
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
  Config config;                        ///< with what the data decide
  std::vector<std::string> overridden;  ///< see BenchSubject
  BenchPass pass = BenchPass::train;
  std::string dtype;
  int64_t threads = 1;
  int64_t parameters = 0;
  int64_t steps = 0;           ///< timed
  int64_t tokens = 0;          ///< of a pass
  Spread step_ms;              ///< of the timed passes
  double tokens_per_s = 0;     ///< at the median
  double flops_per_token = 0;  ///< matrix products, what the mask hides not counted
  double gflops = 0;
  double fma_peak_gflops = 0;  ///< of fma_threads; best of bursts before, between and after the timed passes
  int64_t fma_threads = 1;     ///< of the threads, those that add to the peak: one a core at most
  double fma_share = 0;        ///< gflops / fma_peak_gflops
  int64_t page_faults = 0;     ///< in all timed passes
  int64_t arena_bytes = 0;     ///< activations and scratch of all workers
  int64_t peak_rss_bytes = 0;  ///< of the process, after the timed passes
  std::vector<Op> ops;         ///< longest first; from passes of their own, on one thread
  std::vector<Product> products;
};

StepBench bench_step(const BenchSubject& subject, const StepBenchRequest& request);

std::string to_text(const StepBench& result);
std::string to_json(const StepBench& result);

}  // namespace ropewalk
