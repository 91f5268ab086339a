#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/terminal.h"

namespace ropewalk {

struct TextLine {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  ///< as long as x; what is not finite, or not positive on a logarithmic axis, breaks the line
};

/// Lines in the terminal.
struct TextPlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<TextLine> lines;
  bool log2_x = false;  ///< every x that occurs is a tick then
  bool log10_y = false;
  double marked_x = 0;  ///< a vertical line of dots; 0: none
  std::string mark_label;
};

/// The plot in `rows` rows of `width` columns, below its title and above its x axis and legend. With Unicode a cell
/// holds 2 x 4 dots (braille) in the colour of its line; without, or where colours would have to tell lines apart and
/// are not to be had, the letter of its line. A sentence where nothing can be drawn.
std::string text_plot(const TextPlot& plot, std::size_t width, std::size_t rows, const TextStyle& style);

}  // namespace ropewalk
