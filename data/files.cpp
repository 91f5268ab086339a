#include "data/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "data/error.h"

namespace ropewalk {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// An open file descriptor, closed at the end of its scope.
struct Descriptor {
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

}  // namespace

std::vector<std::string> find_files(const std::string& path) {
  if (path.empty()) throw DataError("data.path is empty; give a file or a glob pattern such as 'texts/*.txt'");
  if (path.find('\0') != std::string::npos) throw DataError("data.path holds a zero byte");
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) return {path};  // a name may hold brackets and still be a name
  const int why_not = errno;

  glob_t found = {};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> release(&found, globfree);
  const int status_of_glob = glob(path.c_str(), GLOB_TILDE, nullptr, &found);
  if (status_of_glob == 0) {
    std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    std::ranges::sort(files);
    return files;
  }
  if (path.find_first_of("*?[") == std::string::npos) {
    throw DataError(fmt::format("{}: cannot be read: {}", path, reason(why_not)));
  }
  throw DataError(fmt::format("{}: no file matches this pattern", path));
}

std::string read_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    throw DataError(fmt::format("{}: cannot be read: {}", path, reason(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    throw DataError(fmt::format("{}: is a directory; name a file in it, or '{}/*' for all", path, path));
  }
  if (!S_ISREG(status.st_mode)) {  // opening a pipe would wait for ever, reading a device would never end
    throw DataError(fmt::format("{}: is not a regular file", path));
  }
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0 || fstat(file.fd, &status) != 0) {
    throw DataError(fmt::format("{}: cannot be read: {}", path, reason(errno)));
  }
  if (status.st_size == 0) throw DataError(fmt::format("{}: is empty", path));

  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = read(file.fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(fmt::format("{}: cannot be read: {}", path, reason(errno)));
    if (got == 0) {
      throw DataError(
          fmt::format("{}: ended at byte {} of {}; it was cut while it was read", path, filled, content.size()));
    }
    filled += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace ropewalk
