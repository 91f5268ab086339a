#pragma once

#include <string>

#include "train/config_resolve.h"
#include "train/log_schema.h"

namespace ropewalk {

/// What to train and where.
struct TrainRequest {
  ResolvedConfig config;
  std::string directory;  ///< "": runs/NAME/<time>-<random>; with `resume`, an existing run
  std::string name = "run";
  std::string command_line;
  bool resume = false;
};

struct TrainOutcome {
  LogStatus status = LogStatus::finished;
  int signal = 0;  ///< the signal that ended it early
  std::string directory;
};

/// Trains one run to its end (or only evaluates it: train.from with no steps), or until a signal or divergence, and
/// leaves config.ini, log.h5, events.jsonl, summary.json and checkpoints/ in its directory. Progress goes to stderr.
///
/// A resumed run continues from its newest checkpoint (or its beginning) and ends as if it had never stopped, bit for
/// bit. Throws on bad data, a configuration that contradicts the run's, or a log or checkpoint that cannot be written.
TrainOutcome train_run(const TrainRequest& request);

}  // namespace ropewalk
