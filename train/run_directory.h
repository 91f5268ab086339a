#pragma once

#include <stdexcept>
#include <string>

namespace ropewalk {

/// A run's directory cannot be made or used; the message names it, the reason and the way out.
class RunDirectoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes ROOT/NAME/YYYYmmddTHHMMSS-xxxxxx (UTC time, random suffix), which did not exist before, and returns its path.
std::string create_run_directory(const std::string& root, const std::string& name);

/// Makes `directory`, and its parents, for a run. It must not exist or be empty.
void use_run_directory(const std::string& directory);

/// The name of a run: the last part of its directory's path, also where that ends in a slash or is '.'.
std::string run_id_of(const std::string& directory);

/// Where a run keeps what; its log and checkpoints: RunLog::path_in(), checkpoints_in().
inline std::string config_in(const std::string& directory) {
  return directory + "/config.ini";
}
inline std::string events_in(const std::string& directory) {
  return directory + "/events.jsonl";
}
inline std::string summary_in(const std::string& directory) {
  return directory + "/summary.json";
}

/// Ownership of a run's directory: an exclusive lock on DIRECTORY/.lock, held until destruction or the end of the
/// process, however it ends. A run can be written only by the holder.
class RunLock {
 public:
  /// @throws RunDirectoryError if another process (or another RunLock) holds it, or it cannot be made.
  explicit RunLock(std::string directory);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  const std::string& directory() const { return directory_; }
  /// A warning, if the file system has no locks and the run is therefore unprotected; else empty.
  const std::string& warning() const { return warning_; }

 private:
  std::string directory_, warning_;
  int fd_ = -1;
  int owner_;  // process id
};

/// Whether some process holds the lock of the run in `directory`, i.e. it is still being written.
bool run_is_locked(const std::string& directory);

}  // namespace ropewalk
