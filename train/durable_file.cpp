#include "train/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ropewalk {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

DurableFile::DurableFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot create '" + temporary_ + "'");
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, next, std::min(bytes, std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write '" + temporary_ + "'");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void DurableFile::commit() {
  if (::fsync(fd_) != 0) fail("cannot sync '" + temporary_ + "'");
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail("cannot put '" + temporary_ + "' in place of '" + path_ + "'");
  }
  sync_directory(directory_of(path_));
}

void write_file_durably(const std::string& path, std::string_view text) {
  DurableFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

void rename_durably(const std::string& from, const std::string& to) {
  const int fd = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open '" + from + "'");
  const int synced = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  errno = error;
  if (synced != 0) fail("cannot sync '" + from + "'");
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("cannot rename '" + from + "' to '" + to + "'");
  sync_directory(directory_of(to));
}

void sync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

}  // namespace ropewalk
