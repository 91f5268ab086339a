#pragma once

#include <string>
#include <vector>

#include "train/config_resolve.h"

namespace ropewalk {

/// What keys require of each other. `given` is the configuration as it was written, `resolved` the same with derived
/// values, to which warnings are added. Each message names the keys, their values and where they came from.
void check_across_keys(const AppliedEntries& given, ResolvedConfig& resolved, Purpose purpose,
                       std::vector<std::string>& errors);

}  // namespace ropewalk
