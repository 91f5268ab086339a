#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "train/log_file.h"
#include "train/log_schema.h"
#include "train/run_directory.h"

namespace ropewalk {

/// The log of a run in progress, DIRECTORY/log.h5. Rows gather in memory that is reserved once and go to the file
/// together in `flush`; a kill at any moment loses nothing that was flushed.
///
/// If the file cannot be written (disk full), the member that met it throws LogWriteError, once; the file is not
/// touched any more, every later call does nothing, and what was flushed before can be read and recovered.
class RunLog {
 public:
  /// Begins a log in the directory whose lock the caller holds, for as long as the log lives.
  /// @throws LogWriteError if there is one already or it cannot be created.
  static RunLog create(const RunLock& lock, const LogSchema& schema, const LogHeader& header);

  /// Continues the log of a run that was interrupted or killed after a checkpoint at `last_step`: keeps its rows up to
  /// that step and drops later ones, which the resumed run writes anew; evaluations are kept up to `last_evaluation`,
  /// for a checkpoint may have been written just before one. The old file is replaced only when the new one is on the
  /// disk. The header stays that of the first start.
  /// @throws LogError if there is no readable log, or it was written under another schema; LogWriteError.
  static RunLog resume(const RunLock& lock, int64_t last_step, const LogSchema& schema,
                       int64_t last_evaluation = std::numeric_limits<int64_t>::max());

  RunLog(RunLog&&) noexcept;
  RunLog& operator=(RunLog&&) = delete;
  /// A log that was not finished is flushed and closed, its status `failed` where it was `running`.
  ~RunLog();

  // Append one row; memory only, unless the reserved memory is full: then it flushes first.
  // @throws std::invalid_argument if a span has not the size that the schema asks for.
  void append(const TrainRow& row);
  void append(const LayersRow& row);
  void append(const StemRow& row);
  void append(const ResidualRow& row);
  void append(const AttentionRow& row);
  void append(const EvalRow& row);

  /// Writes all rows gathered so far, so that readers see them and a kill does not lose them.
  void flush();
  /// flush() if the last one was at least two seconds ago; to be called after each step.
  void flush_if_due();
  /// flush(), and forces the file to the disk itself; before a checkpoint is written.
  void sync();
  void set_status(LogStatus status, std::size_t entry = 0);
  /// Flushes, sets the status of the entries that are still running, closes the file and replaces it by a compressed
  /// copy. If there is no room for the copy the log stays as it is, which is complete, and a warning is added.
  void finish(LogStatus status);

  /// Step of the last training row that was kept by `resume`; -1 if none.
  int64_t last_step() const;
  /// Warnings since the last call, those of the lock among them; e.g. that the directory lies on a network file system.
  /// There may be some after `create`, `resume` and `finish`.
  std::vector<std::string> take_warnings();
  /// Whether the log could not be written and has been given up.
  bool failed() const;

  /// The path of the log of the run in `directory`.
  static std::string path_in(const std::string& directory);

 private:
  struct State;
  explicit RunLog(std::unique_ptr<State> state);
  template <typename F>
  void guarded(F&& f);
  template <typename Table, typename Append>
  void append_row(Table& table, int64_t step, Append&& append);

  std::unique_ptr<State> state_;
};

}  // namespace ropewalk
