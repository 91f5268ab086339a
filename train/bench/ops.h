#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/tape.h"
#include "train/bench/machine_peak.h"
#include "train/bench/model.h"
#include "train/bench/rounds.h"

namespace ropewalk {

/// One op at one shape, by itself.
struct OpCase {
  std::string op;       ///< its function in framework/ops
  std::string variant;  ///< of several cases of one op
  std::string shape;    ///< for people
  std::vector<Tensor> inputs;
  std::function<Var(Tape&, const std::vector<Var>&)> run;
  double forward_bytes = 0;  ///< that must move: every operand read once, every result written once
  double backward_bytes = 0;
  double forward_flops = 0;          ///< of matrix products, what the mask hides not counted; backward twice that
  bool gradient_in_forward = false;  ///< the forward pass does the products of the backward as well
};

/// Sequences that the trainer takes through a tape together.
int64_t micro_batch_sequences(const Config& config);

/// Every op of framework/ops at the shapes it has in a micro-batch of the configuration.
std::vector<OpCase> op_cases(const Config& config);

struct OpBench {
  /// One direction of one op.
  struct Pass {
    Spread us;            ///< microseconds
    double gflops = 0;    ///< 0 for what is no matrix product
    double gb_per_s = 0;  ///< of the bytes that must move
    /// Least possible time over the median: what the FMA peak or the memory allows, whichever is slower.
    double roofline = 0;
    std::string bound;  ///< that which allows least: "FMA", or the level that its bytes fit in: "L2"
  };
  struct Row {
    std::string op, variant, shape;
    Pass forward, backward;
  };
  std::string name;
  Config config;
  std::vector<std::string> overridden;  ///< see BenchSubject
  std::string dtype;
  int64_t tokens = 0;  ///< of a micro-batch
  double fma_peak_gflops = 0;
  MemoryRoof memory;
  std::vector<Row> rows;
};

/// A direction that took these seconds, against the roofs (FLOP/s, and `memory`).
OpBench::Pass judge(const Spread& seconds, double flops, double bytes, double fma_peak, const MemoryRoof& memory);

struct OpBenchRequest {
  double seconds = 6;  ///< about so long, and at least some runs of every case
  /// The cases with this in the name of their op, which may go on with a variant ("attention_packed: rot"); empty: all.
  std::string only = "";
  BenchSay say = {};
};

/// Times the cases, turn by turn, on one thread. Throws ConfigError where `only` leaves none, with the names of the
/// ops.
OpBench bench_ops(const BenchSubject& subject, const OpBenchRequest& request);

std::string to_text(const OpBench& result);
std::string to_json(const OpBench& result);

}  // namespace ropewalk
