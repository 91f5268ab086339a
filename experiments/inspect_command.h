#pragma once

#include <string>

#include "experiments/arguments.h"
#include "experiments/terminal.h"

namespace ropewalk {

/// `ropewalk inspect RUN|SWEEP`: what is to be printed. Throws UsageError for flags that do not go together or with
/// what is looked at, and what inspect() and its kin throw.
std::string inspect_command(const Arguments& arguments, const TextStyle& style);

}  // namespace ropewalk
