#pragma once

#include <string>
#include <vector>

#include "framework/message.h"

namespace ropewalk {

/// How a warning that belongs to no line of a file reads on stderr. Warnings are kept and handed on as plain sentences;
/// whoever shows one adds this, once.
inline std::string warning_text(const std::string& warning) {
  return "ropewalk: warning: " + warning;
}

/// Shows each on stderr, a line each.
inline void show_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) message("{}\n", warning_text(warning));
}

}  // namespace ropewalk
