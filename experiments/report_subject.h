#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/log_digest.h"
#include "experiments/run_result.h"

namespace ropewalk {

/// What a report is about.
struct ReportSubject {
  std::string title;
  std::vector<RunResult> runs;
  std::string config;                               ///< sweep.ini or config.ini, as text
  std::vector<std::optional<LogDigest>> logs = {};  ///< one a run, or none at all; empty where there is nothing to read
};

/// Reads sweeps and single runs, finished or not, with their logs. With several directories the variants of each carry
/// the sweep's name, or the directory where sweeps share one. What of a run cannot be read goes to its log_problem.
/// Throws std::runtime_error for a directory that holds neither a sweep nor a run.
ReportSubject read_report_subject(std::span<const std::string> directories);

}  // namespace ropewalk
