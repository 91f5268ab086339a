#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/bench/model.h"
#include "train/bench/rounds.h"

namespace ropewalk {

/// What a table of bench_scaling goes over.
enum class ScalingAxis : uint8_t { length, width, threads, jobs };
inline constexpr const char* kScalingAxes[] = {"length", "width", "threads", "jobs"};

struct ScalingRequest {
  SubjectWith subject;
  double seconds = 10;               ///< at least so long is measured for each table
  std::vector<int64_t> values = {};  ///< of the axis; empty: its usual ones
};

/// Throws ConfigError for a value of the axis that makes no model, or more than 1024 jobs, and Error where all models
/// of the table together want more memory than there is. Measures nothing.
void check_scaling(ScalingAxis axis, const ScalingRequest& request);

/// One table of alternatives that were timed turn by turn.
struct ScalingTable {
  struct Row {
    int64_t value = 0;    ///< of the axis
    std::string variant;  ///< "full", "window 256"; else empty
    BenchPass pass = BenchPass::train;
    Spread ms;  ///< of a pass
    double tokens_per_s = 0;
    Spread ratio;          ///< tokens/s over those of the first row of the same pass, within a round
    double fma_share = 0;  ///< of the FMA peak of fma_threads() of its threads
  };
  std::string name;
  Config config;
  std::vector<std::string> overridden;  ///< see BenchSubject
  ScalingAxis axis = ScalingAxis::length;
  int64_t rounds = 0;
  double fma_peak_gflops = 0;  ///< of one thread
  std::vector<Row> rows;
};

/// Usual values:
///   length   context length 128 .. 8192, about as many tokens a pass as the subject has; full attention, and a window
///            of 256 where that is shorter; training and forward
///   width    d_model 32 .. 512, heads of the subject's size; training
///   threads  1 .. cores, training
///   jobs     1 .. cores single-threaded trainings side by side, each on a core of its own; tokens/s of all together
/// Throws as check_scaling().
ScalingTable bench_scaling(ScalingAxis axis, const ScalingRequest& request);

std::string to_text(const ScalingTable& table);
std::string to_json(const std::vector<ScalingTable>& tables);

}  // namespace ropewalk
