#pragma once

#include <stdexcept>
#include <string>

#include <fmt/core.h>

namespace ropewalk {

/// A fault of the caller or the surroundings, with a message that names the thing, its value, the limit and the way
/// out.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error with a formatted message unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) fail(format, std::forward<Args>(args)...);
}

}  // namespace ropewalk
