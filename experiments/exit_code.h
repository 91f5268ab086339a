#pragma once

namespace ropewalk {

/// Exit codes of the command.
enum ExitCode : int { kDone = 0, kError = 1, kUsage = 2, kDiverged = 3, kUnreadable = 4 };

/// The exit code after SIGINT or SIGTERM, as shells have it.
constexpr int exit_code_after(int signal) {
  return 128 + signal;
}

}  // namespace ropewalk
