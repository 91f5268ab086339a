#pragma once

#include <filesystem>
#include <string>

#include "train/run_directory.h"
#include "train/run_log.h"
#include "train/run_state.h"

namespace ropewalk {

/// Where the files of a run are, in its directory.
struct RunPaths {
  std::filesystem::path directory;

  std::string config() const { return config_in(directory.string()); }
  std::string log() const { return RunLog::path_in(directory.string()); }
  std::string events() const { return events_in(directory.string()); }
  std::string summary() const { return summary_in(directory.string()); }
  std::string checkpoints() const { return checkpoints_in(directory.string()); }
  std::string output() const { return (directory / "output.txt").string(); }  ///< what the workers of a sweep said
};

/// Where the files of a sweep are, in its directory.
struct SweepPaths {
  std::filesystem::path directory;

  std::string sweep_file() const { return (directory / "sweep.ini").string(); }
  std::string runs_table() const { return (directory / "runs.csv").string(); }
  RunPaths run(const std::string& id) const { return {directory / id}; }

  std::filesystem::path work() const { return directory / ".work"; }
  /// What the worker of a run reads, what it says while it works, and why the last one failed.
  std::string config(const std::string& id) const { return (work() / (id + ".ini")).string(); }
  std::string output(const std::string& id) const { return (work() / (id + ".txt")).string(); }
  std::string failure(const std::string& id) const { return (work() / (id + ".failed")).string(); }
};

/// The page about a run or a sweep, where no other place is given.
inline std::string report_in(const std::string& directory) {
  return (std::filesystem::path(directory) / "report.html").string();
}

}  // namespace ropewalk
