#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/log_schema.h"
#include "train/run_state.h"
#include "train/trainer.h"

namespace ropewalk {

/// Writes DIRECTORY/summary.json: what a run came to, for sweeps and scripts. Lengths that cannot be evaluated are
/// null.
void write_run_summary(const std::string& directory, const Config& config, int64_t parameters, LogStatus status,
                       const RunState& state, const std::vector<int64_t>& lengths, bool task,
                       const std::optional<Divergence>& divergence, double tokens_per_s);

}  // namespace ropewalk
