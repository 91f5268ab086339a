#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "experiments/sweep_plan.h"

namespace ropewalk {

/// Where numbers first stopped being finite.
struct RunDivergence {
  int64_t step = 0;
  std::string module;
  std::string where;  ///< "value" or "gradient"
};

/// "step 40, first in blocks.3.ffn (gradient)"
std::string divergence_text(const RunDivergence& divergence);

/// What one run came to, as its directory tells.
struct RunResult {
  std::string id;       ///< name of its directory
  std::string variant;  ///< runs that differ only in the seed share it
  int64_t seed = 0;
  std::vector<std::string> values;  ///< of the keys that vary in its sweep, in their order
  std::string directory;
  std::string status = "waiting";  ///< waiting running finished interrupted diverged failed killed
  std::string reason;              ///< why it failed, one line
  std::string log_problem;         ///< why its log cannot be read, where a report looked for it; one line

  int64_t steps = 0;  ///< done
  int64_t parameters = 0;
  double wall_time = std::numeric_limits<double>::quiet_NaN();  ///< seconds
  double tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  int64_t train_length = 0;    ///< the longest length trained at; 0 if unknown
  bool positions_end = false;  ///< of a learned table, or random ones below a limit

  std::string protocol;
  std::vector<int64_t> lengths;                ///< of the columns below; NaN: not evaluable at that length
  std::vector<double> loss;                    ///< last evaluation
  std::vector<double> accuracy;                ///< empty unless a task
  std::vector<double> exact_match;             ///< empty unless a task
  std::vector<double> best_loss;               ///< least of all evaluations
  std::vector<RunDivergence> divergence = {};  ///< empty, or one

  std::map<std::string, std::string> configuration =
      {};  ///< every key and its value; empty if config.ini is unreadable

  /// Did numbers stop being finite? Also where `train.on_divergence = continue` let the run go on to its end.
  bool has_diverged() const { return status == "diverged" || !divergence.empty(); }
  /// Do its final results count?
  bool counts() const { return status == "finished" && !has_diverged(); }
};

/// Reads DIRECTORY/summary.json and DIRECTORY/config.ini into `result`, whose id, variant, seed and values stay unless
/// empty. Without a summary the status is `running` while a process holds the run, `killed` where one began, else
/// `waiting`. Never throws for what the files hold: a damaged summary is a failed run with a reason.
void read_run_result(const std::string& directory, RunResult& result);

/// A run of a sweep as planned, before anything of it is read.
RunResult planned_run(const SweepPlan& plan, const SweepPoint& point);

/// read_run_result() for a run of the sweep in this directory, and why its last worker failed, if it did.
void read_sweep_run(const std::string& sweep_directory, RunResult& result);

/// A run by itself: id and variant are its name. Throws std::runtime_error if the directory holds no run.
RunResult read_single_run(const std::string& directory);

/// All runs of a sweep.
struct SweepResults {
  std::string name;
  std::string directory;
  std::string text;  ///< sweep.ini
  std::vector<std::string> varying_keys;
  std::vector<RunResult> runs;  ///< in the order of the plan
};

/// The name of the directory of a run of a sweep: its variant and seed.
std::string run_id(const SweepPoint& point);

/// Does the directory hold a sweep (a sweep.ini)?
bool is_sweep_directory(const std::string& directory);

/// Reads what there is of a sweep that ran, is running or was cut off.
/// Throws ConfigError if its sweep.ini cannot be read.
SweepResults read_sweep_results(const std::string& directory);

/// runs.csv: a row a run, with a column for each length that any run was evaluated at.
std::string results_csv(const SweepResults& results);

}  // namespace ropewalk
