#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/terminal.h"
#include "train/read_log.h"

namespace ropewalk {

struct InspectOptions {
  int64_t rows = 10;                 ///< last rows of the training table
  std::optional<int64_t> step = {};  ///< of the layers table; nothing: the last that was logged
};

/// What a log holds, as tables of at most 80 columns: header, training, evaluation by length, gradient norms by layer
/// and module. `events` is the run's events.jsonl, which may be missing: it tells which module first was not finite.
/// Throws std::runtime_error if no layers were logged at the step asked for.
std::string log_text(const LogContents& log, const std::string& events, const InspectOptions& options,
                     const TextStyle& style);

/// The same for a run's directory or its log file, finished, killed or still running; for the directory of a sweep the
/// comparison of its runs. Throws LogError if there is nothing that can be read.
std::string inspect(const std::string& path, const InspectOptions& options, const TextStyle& style);

}  // namespace ropewalk
