#pragma once

#include <functional>
#include <string>

#include "experiments/arguments.h"

namespace ropewalk {

/// `ropewalk export RUN`: its log as CSV or TensorBoard events, its weights as safetensors. Hands the paths of what it
/// wrote to `print`, a line each, or with `--csv -` the table itself. Throws UsageError, LogError, CheckpointError,
/// ConfigError where an architecture has no such names, and std::system_error where a file cannot be written.
void export_command(const Arguments& arguments, const std::function<void(const std::string&)>& print);

}  // namespace ropewalk
