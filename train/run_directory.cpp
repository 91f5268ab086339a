#include "train/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "train/machine.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& directory, const std::string& reason, const std::string& way_out) {
  throw RunDirectoryError("run directory '" + directory + "': " + reason + "; " + way_out);
}

void make_parents(const std::string& directory, const std::string& way_out) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(directory, "cannot be made (" + error.message() + ")", way_out);
}

std::string time_and_suffix() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  std::array<char, 32> text = {};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S-", &parts);
  std::string name(text.data(), length);
  std::random_device random;
  for (int i = 0; i < 6; ++i) name += "0123456789abcdef"[random() % 16];
  return name;
}

std::string lock_path(const std::string& directory) {
  return directory + "/.lock";
}

}  // namespace

std::string create_run_directory(const std::string& root, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    fail(root + "/" + name, "'" + name + "' is no name for a run", "use a name without '/'");
  }
  const std::string parent = (fs::path(root) / name).string();
  make_parents(parent, "choose a place that can be written with --run DIR");
  while (true) {
    std::string directory = (fs::path(parent) / time_and_suffix()).string();
    if (mkdir(directory.c_str(), 0777) == 0) return directory;
    if (errno != EEXIST) {
      fail(directory, std::string("cannot be made (") + std::strerror(errno) + ")",
           "choose a place that can be written with --run DIR");
    }
  }
}

void use_run_directory(const std::string& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) {
    make_parents(directory, "choose a place that can be written");
    return;
  }
  if (!fs::is_directory(status)) fail(directory, "is not a directory", "choose another");
  fs::directory_iterator inside(directory, error);
  if (error) fail(directory, "cannot be read (" + error.message() + ")", "choose another");
  for (const fs::directory_entry& entry : inside) {
    if (entry.path().filename() == ".lock") continue;
    fail(directory, "is not empty", "choose another, or continue the run in it with --resume");
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) fail(directory, "cannot be written", "choose another");
}

std::string run_id_of(const std::string& directory) {
  std::error_code error;
  const fs::path absolute = fs::absolute(directory, error);
  const fs::path path = (error ? fs::path(directory) : absolute).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

RunLock::RunLock(std::string directory) : directory_(std::move(directory)), owner_(getpid()) {
  const std::string path = lock_path(directory_);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail(directory_, std::string("its .lock cannot be opened (") + std::strerror(errno) + ")",
         "it must be a directory that can be written");
  }
  int refused = flock(fd_, LOCK_EX | LOCK_NB);
  for (int attempt = 0; attempt < 5 && refused != 0 && errno == EWOULDBLOCK; ++attempt) {
    usleep(10'000);  // run_is_locked holds it for a moment
    refused = flock(fd_, LOCK_EX | LOCK_NB);
  }
  if (refused != 0) {
    const int error = errno;
    std::array<char, 256> holder = {};
    const ssize_t length = pread(fd_, holder.data(), holder.size() - 1, 0);
    if (error == EWOULDBLOCK) {
      ::close(std::exchange(fd_, -1));
      fail(directory_, "is in use by " + (length > 0 ? std::string(holder.data()) : std::string("another process")),
           "wait for it or stop it first");
    }
    warning_ =
        "'" + path + "' cannot be locked (" + std::strerror(error) + "); do not write this run from two processes";
    return;
  }
  const std::string holder = "process " + std::to_string(getpid()) + " on " + host_name();
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, holder.data(), holder.size(), 0) < 0) {
    return;  // a full disk: the text is a courtesy, the lock is what counts
  }
}

RunLock::RunLock(RunLock&& other) noexcept
    : directory_(std::move(other.directory_)),
      warning_(std::move(other.warning_)),
      fd_(std::exchange(other.fd_, -1)),
      owner_(other.owner_) {}

RunLock::~RunLock() {
  if (fd_ < 0) return;
  // Forked children share the lock, so that closing is not enough; and a child's copy must not unlock its parent.
  if (getpid() == owner_) flock(fd_, LOCK_UN);
  ::close(fd_);
}

bool run_is_locked(const std::string& directory) {
  const int fd = ::open(lock_path(directory).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

}  // namespace ropewalk
