#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "train/bench/rounds.h"
#include "train/config.h"

namespace ropewalk {

/// Adds NAME (the median), NAME_lower_quartile, NAME_upper_quartile, NAME_least, NAME_greatest and NAME_noisy.
void put_spread(nlohmann::json& row, const std::string& name, const Spread& spread);

/// Adds "settings", what of a configuration decides the cost of a step, by key (train.micro_batch as it is carried
/// out), and "overrides": those keys that the user gave, at their values.
void put_settings(nlohmann::json& out, const Config& config, const std::vector<std::string>& overridden);

}  // namespace ropewalk
