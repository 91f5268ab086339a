#pragma once

#include <string>

#include "experiments/run_result.h"
#include "experiments/sweep_plan.h"

namespace ropewalk {

struct SweepOptions {
  int jobs = 0;                               ///< runs at a time; 0: as many as the cores carry
  std::string directory;                      ///< "": runs/NAME
  std::string executable = "/proc/self/exe";  ///< the program whose `train` does a run
};

struct SweepOutcome {
  SweepResults results;
  int signal = 0;  ///< SIGINT or SIGTERM that ended it before its time

  /// kDone: all finished; kError: some failed; kDiverged: some diverged and the others finished; or that of a signal.
  int exit_code() const;
};

/// Does every run of the plan that is not done yet, each in a process of its own, and tells of it on standard error.
///
/// In the sweep's directory: sweep.ini, runs.csv (rewritten whole whenever runs end or start), and for each run a
/// directory ID = VARIANT-sSEED; .work/ has the configuration files that the workers read. A run that finished or
/// diverged is not done again; one that was interrupted or killed, or failed, goes on from its last checkpoint; without
/// one it starts anew and what it had written is kept in .work/. A worker that dies marks its run failed, and the
/// others go on. Where there are as many jobs as cores that this process may use, each single-threaded run keeps to a
/// core of its own. After SIGINT or SIGTERM all workers get the signal, write their checkpoints and are waited for.
///
/// Throws UsageError where the directory holds another sweep (runs which this plan has not, or has with other values),
/// RunDirectoryError where it cannot be used or a second process works on it, DataError for missing data.
SweepOutcome run_sweep(const SweepPlan& plan, const SweepOptions& options);

}  // namespace ropewalk
