#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/log_schema.h"

namespace ropewalk {

/// A log in memory. Every group is cut to the rows that are whole in all of its columns.
struct LogContents {
  std::string path;
  LogSchema schema;
  LogHeader header;
  std::vector<LogStatus> status;  ///< one per entry; `running` also after a kill
  LogTables tables;
  std::vector<std::string> damage;  ///< what was left out, a sentence for each dataset
};

/// What reading does where the values of a column cannot be read.
enum class LogDamage : uint8_t {
  refused,   ///< throws LogError
  left_out,  ///< fills in what unwritten rows hold, NaN or -1; without its `step` a group stays empty
};

/// Reads the log of a running, finished or killed run; the file is not changed and its writer not hindered.
/// @throws LogError if there is none, or it is empty, truncated, damaged, or no log of this schema.
LogContents read_log(const std::string& path, LogDamage damage = LogDamage::refused);

/// Rows of one column of a log.
struct LogRows {
  std::string_view group, column;
  std::size_t first = 0, count = 0;  ///< of the group's `step`
  std::span<const float> values;     ///< row-major; NaN where they cannot be read
};

/// read_log() of a log of any size in little memory: the columns of `layers`, `residual` and `attention` stay empty in
/// the tables, where only their `step` is. `visit` gets them some rows at a time, one column after the other, each from
/// its first to its last row, together with all else that the log holds.
LogContents read_log_in_slabs(const std::string& path, LogDamage damage,
                              const std::function<void(const LogContents& log, const LogRows& rows)>& visit);

/// read_log_in_slabs() without looking at any slab: all that a log holds but those columns.
LogContents read_log_outline(const std::string& path, LogDamage damage);

/// `visit` gets rows [first, first + count) of one column of `layers`, `residual` or `attention`, some at a time; what
/// cannot be read is NaN, and noted in the log. `log` is as read_log_outline() gave it. Throws LogError as it does, and
/// Error where the column has no such rows.
void read_log_rows(LogContents& log, const std::string& group, const std::string& column, std::size_t first,
                   std::size_t count, const std::function<void(const LogRows& rows)>& visit);
/// The same at once.
std::vector<float> read_log_rows(LogContents& log, const std::string& group, const std::string& column,
                                 std::size_t first, std::size_t count);

/// Removes the rows with step > last_step from every group.
void cut_after(LogTables& tables, int64_t last_step);
/// The same for one group.
void cut_after(EvalTable& table, int64_t last_step);

struct RecoveredLog {
  int64_t train_rows = 0;
  int64_t last_step = -1;         ///< of the training rows; -1 where there are none
  std::vector<LogStatus> before;  ///< one per entry
  std::vector<LogStatus> after;   ///< `running` has become `interrupted`
};

/// Rewrites the log of a killed run as a clean file that every HDF5 and netCDF program opens, with all rows that were
/// flushed. The old file is replaced only when the new one is on the disk. Takes the lock of the run's directory.
/// @throws LogError as read_log; LogWriteError if the file cannot be written; RunDirectoryError if the run is still
/// going on.
RecoveredLog recover_log(const std::string& path);

}  // namespace ropewalk
