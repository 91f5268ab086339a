#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ropewalk {

/// The files that `path` names: the file itself, else all matches of it as a glob pattern, in the byte order of their
/// names (never that of the locale). Throws DataError if there are none.
std::vector<std::string> find_files(const std::string& path);

/// All bytes of a regular file. Throws DataError if it is missing, a directory, not a regular file, unreadable or
/// empty.
std::string read_file(const std::string& path);

}  // namespace ropewalk
