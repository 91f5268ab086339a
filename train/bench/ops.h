#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/tape.h"
#include "train/bench/machine_peak.h"
#include "train/bench/model.h"

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
  double forward_flops = 0;  ///< of matrix products, what the mask hides not counted; backward twice that
};

/// Sequences that the trainer takes through a tape together.
int64_t micro_batch_sequences(const Config& config);

/// Every op of framework/ops at the shapes it has in a micro-batch of the configuration.
std::vector<OpCase> op_cases(const Config& config);

struct OpBench {
  /// One direction of one op.
  struct Pass {
    double us = 0;        ///< median microseconds
    double gflops = 0;    ///< 0 for what is no matrix product
    double gb_per_s = 0;  ///< of the bytes that must move
    double roofline =
        0;              ///< least possible time over `us`: what the FMA peak or the memory allows, whichever is slower
    std::string bound;  ///< that which allows least: "FMA", or the level that its bytes fit in: "L2"
  };
  struct Row {
    std::string op, variant, shape;
    Pass forward, backward;
  };
  std::string name;
  std::string dtype;
  int64_t tokens = 0;  ///< of a micro-batch
  double fma_peak_gflops = 0;
  MemoryRoof memory;
  std::vector<Row> rows;
};

/// Times all cases, turn by turn, on one thread; `seconds` in all.
OpBench bench_ops(const BenchSubject& subject, double seconds);

std::string to_text(const OpBench& result);
std::string to_json(const OpBench& result);

}  // namespace ropewalk
