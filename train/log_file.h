#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "train/hdf5_file.h"
#include "train/log_schema.h"

namespace ropewalk {

/// Writes a log file of schema ropewalk-log 1: creation, rows, status. The dimensions of every dataset are scales (as
/// netCDF-4 has it), every dataset has `units` and `long_name`. Members throw Hdf5Error.
class LogFile {
 public:
  struct Options {
    bool compress = false;    ///< for a file that is written at once and closed
    uint64_t most_rows = ~0;  ///< rows of the longest group, if known: smaller chunks for a small file
  };

  /// Creates `path`, which must not exist, with zero rows.
  LogFile(const std::string& path, const LogSchema& schema, const LogHeader& header,
          const std::vector<LogStatus>& status, Options options);

  /// Nothing but rows and status can be written from here on; readers may look on.
  void start_swmr() { writer_.start_swmr(); }
  /// Appends all rows and flushes them. A group's `step` is written after the rest of the group has been flushed, so
  /// that its length is the number of rows that are whole, whenever the process is killed.
  void write(const LogTables& tables);
  void write_status(const std::vector<LogStatus>& status);
  void sync() { writer_.sync(); }
  void close() { writer_.close(); }
  void renamed(const std::string& path) { writer_.renamed(path); }

 private:
  struct Group {
    Hdf5Writer::Dataset step = 0;
    std::vector<Hdf5Writer::Dataset> columns;  // those of a row size above 0, in the order of for_each_column
  };

  template <typename Table>
  void create_group(const char* name, const Table& table, Group& group, Options options);

  LogSchema schema_;
  Hdf5Writer writer_;
  std::array<Group, 6> groups_;  // in the order of for_each_group
  Hdf5Writer::Dataset status_ = 0;
};

/// Writes a complete, compressed log to `path`, replacing what was there only when the new file is on the disk.
void write_log(const std::string& path, const LogSchema& schema, const LogHeader& header,
               const std::vector<LogStatus>& status, const LogTables& tables);

}  // namespace ropewalk
