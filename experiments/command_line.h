#pragma once

#include <string>
#include <vector>

namespace ropewalk {

/// Runs `ropewalk WORDS...` and returns its exit code (exit_code.h). Data go to standard output, all else to standard
/// error; nothing is thrown.
int run_command_line(const std::vector<std::string>& words);

}  // namespace ropewalk
