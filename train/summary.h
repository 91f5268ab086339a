#pragma once

#include <string>
#include <vector>

#include "train/config.h"
#include "train/log_schema.h"
#include "train/run_state.h"

namespace ropewalk {

/// Writes DIRECTORY/summary.json: what a run came to, or how far it is, for sweeps and scripts. Lengths that cannot be
/// evaluated are null. `error`: why it failed; empty: no such key.
void write_run_summary(const std::string& directory, const Config& config, int64_t parameters, LogStatus status,
                       const RunState& state, const std::vector<int64_t>& lengths, double tokens_per_s,
                       const std::string& error = "");

}  // namespace ropewalk
