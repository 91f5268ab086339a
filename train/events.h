#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ropewalk {

/// Appends what happens to a run to a file of one JSON object a line.
class EventLog {
 public:
  /// Opens or creates `path`; a last line that a kill cut off is ended. @throws std::system_error naming the file.
  explicit EventLog(const std::string& path);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  ~EventLog();

  /// Writes {"time", "kind", "step", and the members of the object `fields`} in a single write. NaN and infinities
  /// become null. Returns false if the system refused: an event is no reason to stop a run.
  bool append(const std::string& kind, int64_t step, const nlohmann::json& fields);
  bool append(const std::string& kind, int64_t step);

 private:
  int fd_ = -1;
};

/// The events of a file, oldest first; lines that are no JSON objects are left out and counted in `*bad_lines`.
/// @throws std::system_error if the file cannot be read.
std::vector<nlohmann::json> read_events(const std::string& path, std::size_t* bad_lines = nullptr);

/// Writes `summary` as indented JSON to `path`, whole or not at all. @throws std::system_error naming the file.
void write_summary(const std::string& path, const nlohmann::json& summary);

}  // namespace ropewalk
