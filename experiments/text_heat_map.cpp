#include "experiments/text_heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ropewalk {
namespace {

struct Cell {
  double greatest = -std::numeric_limits<double>::infinity();
  bool broken = false;  ///< holds a value that is not finite
};

/// A row without any finite value is that of something absent.
std::vector<bool> present_rows(const TextHeatMap& map) {
  std::vector<bool> present(map.rows.size(), false);
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    if (std::isfinite(map.values[i])) present[i % map.rows.size()] = true;
  }
  return present;
}

/// [row, column]: the cells of a map of so many columns.
std::vector<Cell> merged(const TextHeatMap& map, std::size_t columns) {
  const std::vector<bool> present = present_rows(map);
  std::vector<Cell> cells(map.rows.size() * columns);
  for (std::size_t i = 0; i < map.steps.size(); ++i) {
    const std::size_t column = i * columns / map.steps.size();
    for (std::size_t row = 0; row < map.rows.size(); ++row) {
      if (!present[row]) continue;
      const auto value = static_cast<double>(map.values[i * map.rows.size() + row]);
      Cell& cell = cells[row * columns + column];
      if (!std::isfinite(value)) cell.broken = true;
      if (std::isfinite(value)) cell.greatest = std::max(cell.greatest, value);
    }
  }
  return cells;
}

/// A step of the scale: 0 to 1.
std::string shade(double share, const TextStyle& style) {
  if (style.colour) return style.heat(share, " ");
  constexpr std::array<const char*, 4> kBlocks = {"░", "▒", "▓", "█"};
  constexpr std::array<const char*, 9> kCharacters = {".", ":", "-", "=", "+", "*", "#", "%", "@"};
  const auto of = [&](const auto& scale) {
    return std::string(scale[static_cast<std::size_t>(std::lround(share * static_cast<double>(scale.size() - 1)))]);
  };
  return style.unicode ? of(kBlocks) : of(kCharacters);
}

}  // namespace

std::string text_heat_map(const TextHeatMap& map, std::size_t width, const TextStyle& style) {
  std::string out = style.bold(map.title) + "\n";
  std::size_t label = 5;
  for (const std::string& row : map.rows) label = std::max(label, columns(row));
  const std::size_t count = std::min(map.steps.size(), width - label - 1);
  const std::size_t repeat = std::min<std::size_t>((width - label - 1) / count, 4);
  const std::vector<Cell> cells = merged(map, count);
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  bool broken = false;
  for (const Cell& cell : cells) {
    broken = broken || cell.broken;
    if (!(cell.greatest > 0)) continue;
    low = std::min(low, cell.greatest);
    high = std::max(high, cell.greatest);
  }
  const double decades = std::log10(high / low);
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    out += style.faint(padded_left(map.rows[row], label)) + " ";
    for (std::size_t column = 0; column < count; ++column) {
      const Cell& cell = cells[row * count + column];
      std::string text = " ";
      if (cell.broken) {
        text = style.red("X");
      } else if (cell.greatest > 0) {
        text = shade(decades > 0 ? std::log10(cell.greatest / low) / decades : 0.5, style);
      }
      for (std::size_t i = 0; i < repeat; ++i) out += text;
    }
    out += "\n";
  }
  const std::string first = fmt::format("{}", map.steps.front());
  const std::string last = fmt::format("{}", map.steps.back());
  out += style.faint(
             padded_left("step", label) + " " + first +
             (count * repeat > first.size() + last.size() ? padded_left(last, count * repeat - first.size()) : "")) +
         "\n";
  if (high > 0) {
    std::string scale;
    for (int i = 0; i <= 8; ++i) scale += shade(i / 8.0, style);
    out += fmt::format("{:.3g} {} {:.3g} (log)", low, scale, high);
  }
  if (map.steps.size() > count) {
    const std::size_t most = (map.steps.size() + count - 1) / count;
    out += fmt::format("; a cell is the greatest of {} steps", most);
  }
  if (broken) out += "; X: not finite";
  return out + "\n";
}

}  // namespace ropewalk
