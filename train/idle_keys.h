#pragma once

#include <string>
#include <vector>

#include "train/config_resolve.h"

namespace ropewalk {

/// The key for whose value `key` is not read in this configuration; "" where it is. position.rope_factor, for one, is
/// not read because of position.rope_scaling = none.
std::string idle_because_of(const Config& config, const std::string& key, const OptionTable& table = option_table());

/// A warning for each key that was given, to another value than it would have had, and that is not read.
std::vector<std::string> idle_key_warnings(const AppliedEntries& given, const ResolvedConfig& resolved,
                                           const OptionTable& table = option_table());

}  // namespace ropewalk
