#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ropewalk {

/// A file that appears under its name whole or not at all, also after a crash or a power cut: it is written as
/// PATH.tmp, synced and renamed by `commit`. Without `commit` the destructor removes the partial file and leaves what
/// stood at PATH. Every member throws std::system_error (its message names the file) when the system refuses.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
};

/// Replaces `path` by a file holding `text`, whole or not at all.
void write_file_durably(const std::string& path, std::string_view text);

/// Renames the complete and closed file `from` to `to` so that a power cut leaves one or the other: the file is synced,
/// renamed, and its directory synced.
void rename_durably(const std::string& from, const std::string& to);

/// Makes the names in `directory` survive a power cut. File systems that cannot sync a directory are left as they are.
void sync_directory(const std::string& directory);

/// The directory part of `path`; "." where there is none.
std::string directory_of(const std::string& path);

}  // namespace ropewalk
