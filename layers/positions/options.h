#pragma once

#include <limits>
#include <string>
#include <vector>

#include "layers/config.h"

namespace ropewalk {

/// One configuration key that a position scheme declares: `position.KEY`.
struct PositionOption {
  std::string key;
  PositionValue default_value;
  std::string help;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  ///< for text options: the values allowed
};

/// A scheme as the configuration, the help text and the documentation see it.
struct PositionSchemeInfo {
  std::string name;     ///< the value of position.encoding
  std::string summary;  ///< one line, with the paper
  std::vector<PositionOption> options;
};

/// The schemes in the order of the table in layers/positions/table.cpp.
const std::vector<PositionSchemeInfo>& position_scheme_infos();

/// Every option of every scheme at its default.
PositionConfig default_position_config();

}  // namespace ropewalk
