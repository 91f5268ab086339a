#pragma once

#include <functional>
#include <string>

#include "experiments/arguments.h"

namespace ropewalk {

/// `ropewalk sample RUN`: continues prompts and hands the text to `print` as it comes, figures and notes to standard
/// error. Throws UsageError for values that mean nothing to this run, and what load_trained_model() and generate()
/// throw.
void sample_command(const Arguments& arguments, const std::function<void(const std::string&)>& print);

}  // namespace ropewalk
