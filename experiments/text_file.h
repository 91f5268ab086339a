#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace ropewalk {

/// The whole of a text file; nothing if it cannot be read or is larger than 64 MiB.
std::optional<std::string> text_of(const std::string& path);

/// The last bytes of a file; "" if it cannot be read.
std::string tail_of(const std::string& path, std::size_t bytes);

}  // namespace ropewalk
