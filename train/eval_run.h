#pragma once

#include <string>
#include <vector>

#include "train/evaluation.h"

namespace ropewalk {

/// What evaluating a run again gives.
struct RunEvaluation {
  LengthScores scores;
  int64_t trained_length = 0;             ///< the longest it was trained at, whatever the overrides say
  std::vector<std::string> changed = {};  ///< what is not as in training: "position.rope_scaling = yarn"
};

/// Evaluates the newest checkpoint of a run again, under its own configuration with overrides: other lengths, another
/// protocol, other held-out data, or another scaling of its positions (position.rope_scaling, position.rope_factor,
/// ...). What fixes the parameters cannot be overridden. Throws ConfigError, CheckpointError, DataError.
RunEvaluation evaluate_run(const std::string& run_directory, const std::vector<std::string>& overrides);

/// The scores as a table for a terminal; lengths are also given as multiples of the trained one.
std::string scores_text(const RunEvaluation& evaluation);

}  // namespace ropewalk
