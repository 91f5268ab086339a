#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/terminal.h"

namespace ropewalk {

/// Positive values over step and layer, in the terminal, on a logarithmic scale.
struct TextHeatMap {
  std::string title;
  std::vector<std::string> rows;  ///< labels, from above
  std::vector<int64_t> steps;     ///< of the columns of values
  std::vector<float> values;      ///< [step, row]; NaN: not finite, or absent where a whole row is
};

/// The map in at most `width` columns. Where there are more steps than columns, a cell is the greatest of what it
/// merges, and one with a value that is not finite is marked: what stands out stays. Colours, or shades without them.
std::string text_heat_map(const TextHeatMap& map, std::size_t width, const TextStyle& style);

}  // namespace ropewalk
