#pragma once

#include <string>
#include <vector>

#include "train/config.h"
#include "train/options.h"

namespace ropewalk {

/// Does another value of this key mean another set of parameters? Keys of positions and masks that only turn, scale or
/// hide do not, nor does dropout, which is for training, nor how parameters were drawn.
bool fixes_parameters(const std::string& key, const OptionTable& table = option_table());

/// Each difference ("model.n_layers: 4 against 6") by which `config` cannot use the parameters that were trained under
/// `trained`; empty: it can.
std::vector<std::string> parameter_conflicts(const Config& config, const Config& trained,
                                             const OptionTable& table = option_table());

}  // namespace ropewalk
