#pragma once

#include <string>

#include "train/config_resolve.h"

namespace ropewalk {

/// What a configuration comes to before anything runs: data, parameters by module, FLOPs a token, activation, optimizer
/// and cache bytes, positions and masks in words, and what the cache would take if the heads shared keys and values
/// otherwise. Reads the data to know the vocabulary. Throws as set_up().
std::string describe(const ResolvedConfig& resolved);

}  // namespace ropewalk
