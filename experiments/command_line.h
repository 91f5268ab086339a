#pragma once

#include <string>
#include <vector>

namespace ropewalk {

/// Exit codes of the command. After SIGINT or SIGTERM it is 128 + the signal.
enum ExitCode : int { kDone = 0, kError = 1, kUsage = 2, kDiverged = 3, kUnreadable = 4 };

/// Runs `ropewalk WORDS...` and returns its exit code. Data go to standard output, all else to standard error; nothing
/// is thrown.
int run_command_line(const std::vector<std::string>& words);

}  // namespace ropewalk
