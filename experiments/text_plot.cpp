#include "experiments/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace ropewalk {
namespace {

constexpr std::size_t kLabel = 9;  ///< columns of a y label

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  /// 0 at low, 1 at high.
  double share(double x) const { return high > low ? (x - low) / (high - low) : 0.5; }
  double at(double share) const { return low + share * (high - low); }
};

/// Dots, and which line put the last one into each cell.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows, bool braille)
      : columns_(columns), rows_(rows), braille_(braille), dots_(columns * rows, 0), line_(columns * rows, -1) {}

  std::size_t width() const { return braille_ ? 2 * columns_ : columns_; }
  std::size_t height() const { return braille_ ? 4 * rows_ : rows_; }

  /// A straight line between two dots, counted from the lower left.
  void draw(int64_t x0, int64_t y0, int64_t x1, int64_t y1, int line) {
    const int64_t steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), int64_t{1}});
    for (int64_t i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(steps);
      dot(x0 + std::lround(share * static_cast<double>(x1 - x0)),
          y0 + std::lround(share * static_cast<double>(y1 - y0)), line);
    }
  }
  int line_at(std::size_t column, std::size_t row) const { return line_[row * columns_ + column]; }
  std::string braille_at(std::size_t column, std::size_t row) const {
    const uint8_t dots = dots_[row * columns_ + column];  // U+2800 and on, in UTF-8
    return {'\xE2', static_cast<char>(0xA0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3F))};
  }

 private:
  void dot(int64_t x, int64_t y, int line) {
    const auto across = static_cast<std::size_t>(x);
    const std::size_t down = height() - 1 - static_cast<std::size_t>(y);
    // The dots of a braille cell by column and row, as Unicode numbers them.
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const std::size_t cell = braille_ ? down / 4 * columns_ + across / 2 : down * columns_ + across;
    dots_[cell] |= braille_ ? kBits[down % 4][across % 2] : 1;
    line_[cell] = line;
  }

  std::size_t columns_, rows_;
  bool braille_;
  std::vector<uint8_t> dots_;
  std::vector<int> line_;
};

double scaled_x(const TextPlot& plot, double x) {
  return plot.log2_x ? std::log2(x) : x;
}
double scaled_y(const TextPlot& plot, double y) {
  return plot.log10_y ? std::log10(y) : y;
}

std::string letter_of(std::size_t line, std::size_t lines) {
  return lines == 1 ? "*" : std::string(1, static_cast<char>('a' + line % 26));
}

void draw_line(const TextPlot& plot, const TextLine& line, int index, const Range& xs, const Range& ys,
               Canvas& canvas) {
  const auto dot_of = [](double share, std::size_t count) {
    return static_cast<int64_t>(std::lround(share * static_cast<double>(count - 1)));
  };
  bool pen_down = false;
  int64_t before_x = 0;
  int64_t before_y = 0;
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    const double x = scaled_x(plot, line.x[i]);
    const double y = scaled_y(plot, line.y[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      pen_down = false;
      continue;
    }
    const int64_t at_x = dot_of(xs.share(x), canvas.width());
    const int64_t at_y = dot_of(ys.share(y), canvas.height());
    canvas.draw(pen_down ? before_x : at_x, pen_down ? before_y : at_y, at_x, at_y, index);
    before_x = at_x;
    before_y = at_y;
    pen_down = true;
  }
}

/// The labels of the x axis at their columns: the ends, and of those between what does not touch another.
std::string x_axis(const TextPlot& plot, const Range& xs, std::size_t columns) {
  std::vector<double> ticks;
  if (plot.log2_x) {
    for (const TextLine& line : plot.lines) ticks.insert(ticks.end(), line.x.begin(), line.x.end());
    std::erase_if(ticks, [&](double tick) { return !std::isfinite(scaled_x(plot, tick)); });
    std::sort(ticks.begin(), ticks.end());
    ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
  } else {
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) ticks.push_back(std::round(xs.at(share)));
  }
  std::rotate(ticks.begin(), ticks.end() - 1, ticks.end());
  if (ticks.size() > 1) std::swap(ticks[0], ticks[1]);  // the first, the last, then those between
  std::string out(columns + 1, ' ');
  for (const double tick : ticks) {
    const std::string label = fmt::format("{:.6g}", tick);
    if (label.size() > columns) continue;
    const auto middle =
        static_cast<std::size_t>(std::lround(xs.share(scaled_x(plot, tick)) * static_cast<double>(columns - 1)));
    const std::size_t begin = std::min(middle - std::min(middle, label.size() / 2), columns - label.size());
    const std::size_t left = begin - std::min<std::size_t>(begin, 1);
    if (out.find_first_not_of(' ', left) <= begin + label.size()) continue;
    out.replace(begin, label.size(), label);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace

std::string text_plot(const TextPlot& plot, std::size_t width, std::size_t rows, const TextStyle& style) {
  Range xs;
  Range ys;
  for (const TextLine& line : plot.lines) {
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      const double x = scaled_x(plot, line.x[i]);
      const double y = scaled_y(plot, line.y[i]);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      xs.take(x);
      ys.take(y);
    }
  }
  const std::string title = style.bold(plot.title) + "\n";
  if (xs.high < xs.low) return title + "nothing to draw: no finite value in these steps\n";

  const bool braille = style.unicode && (style.colour || plot.lines.size() == 1);
  const std::size_t columns = width - kLabel - 2;
  Canvas canvas(columns, rows, braille);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    draw_line(plot, plot.lines[i], static_cast<int>(i), xs, ys, canvas);
  }
  const double mark = scaled_x(plot, plot.marked_x);
  const bool marked = plot.marked_x > 0 && mark >= xs.low && mark <= xs.high;
  const auto mark_column = static_cast<std::size_t>(
      marked ? std::lround(xs.share(mark) * static_cast<double>(columns - 1)) : static_cast<int64_t>(columns));

  std::string out = title + style.faint(padded_left(plot.y_label, kLabel)) + "\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const bool labelled = row == 0 || row == rows / 2 || row == rows - 1;
    const double y = ys.at(rows == 1 ? 0.5 : 1 - static_cast<double>(row) / static_cast<double>(rows - 1));
    const std::string label = labelled ? fmt::format("{:.4g}", plot.log10_y ? std::pow(10, y) : y) : "";
    out += style.faint(padded_left(label, kLabel) + (style.unicode ? " │" : " |"));
    std::string cells;
    std::size_t written = 0;
    for (std::size_t column = 0; column < columns;) {
      const int line = canvas.line_at(column, row);
      if (line < 0) {
        if (column == mark_column) {
          cells += std::string(column - written, ' ') + (style.unicode ? "┊" : ":");
          written = column + 1;
        }
        ++column;
        continue;
      }
      cells += std::string(column - written, ' ');
      std::string same;  // what follows of the same line, in one colour
      for (; column < columns && canvas.line_at(column, row) == line; ++column) {
        same += braille ? canvas.braille_at(column, row) : letter_of(static_cast<std::size_t>(line), plot.lines.size());
      }
      cells += style.hue(static_cast<std::size_t>(line), same);
      written = column;
    }
    out += cells + "\n";
  }
  out += std::string(kLabel + 2, ' ') + style.faint(x_axis(plot, xs, columns)) + "\n";
  out += std::string(kLabel + 2, ' ') + style.faint(plot.x_label) + "\n";
  if (marked) out += padded_left(style.unicode ? "┊" : ":", kLabel) + "  " + plot.mark_label + "\n";
  if (plot.lines.size() == 1) return out;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const std::string sign = braille ? "━" : letter_of(i, plot.lines.size());
    out += std::string(kLabel - 1, ' ') + style.hue(i, sign) + "  " + plot.lines[i].name + "\n";
  }
  return out;
}

}  // namespace ropewalk
