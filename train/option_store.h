#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/config.h"
#include "train/options.h"

namespace ropewalk {

/// A Config with these (key, text) pairs over the table's defaults, each key at most once. Boost.Program_options stores
/// and types the values. Throws std::invalid_argument for an unknown key or a value that parse_value() refuses.
Config store_values(const OptionTable& table, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace ropewalk
