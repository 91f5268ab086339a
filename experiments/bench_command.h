#pragma once

#include <string>

#include "experiments/arguments.h"

namespace ropewalk {

/// `ropewalk bench NAME [SIZE|FILE]`: measures and returns what is to be printed. Throws UsageError for an unknown
/// name, and for a flag that the benchmark does not have.
std::string bench_command(const Arguments& arguments);

}  // namespace ropewalk
