#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/run_result.h"

namespace ropewalk {

/// What a report is about.
struct ReportSubject {
  std::string title;
  std::vector<RunResult> runs;
  std::string config;  ///< sweep.ini or config.ini, as text
};

/// Reads sweeps and single runs, and tries the log of each run that began. With several directories the variants of
/// each carry its name. Throws std::runtime_error for a directory that holds neither.
ReportSubject read_report_subject(std::span<const std::string> directories);

/// One self-contained page without scripts: what was compared and how, a plot of loss against length, the tables and
/// what they separate, every run, and the configuration.
std::string report_html(const ReportSubject& subject);

}  // namespace ropewalk
