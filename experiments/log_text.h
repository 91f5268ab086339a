#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "experiments/terminal.h"
#include "train/read_log.h"

namespace ropewalk {

/// Steps from first to last, both in it.
struct StepRange {
  int64_t first = 0;
  int64_t last = std::numeric_limits<int64_t>::max();

  bool holds(int64_t step) const { return step >= first && step <= last; }
  /// "40", "40..80", "40.."
  std::string text() const;
};

/// Which rows the tables show.
struct InspectOptions {
  int64_t rows = 10;  ///< most rows of the training table, the last of the steps
  StepRange steps = {};
};

/// What a log holds, as tables of at most 80 columns: header, training, evaluation by length, gradient norms by layer
/// and module at the last of the steps. `events` is the run's events.jsonl, which may be missing: it tells which module
/// first was not finite. Throws std::runtime_error if no layers were logged at the one step asked for.
std::string log_text(const LogContents& log, const std::string& events, const InspectOptions& options,
                     const TextStyle& style);

}  // namespace ropewalk
