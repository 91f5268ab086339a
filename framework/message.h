#pragma once

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace ropewalk {

/// Writes to stderr. A stderr that cannot be written (closed, a full disk) is no reason to stop what is being done.
template <class... Args>
void message(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace ropewalk
