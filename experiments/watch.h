#pragma once

#include <cstddef>
#include <string>

#include "experiments/terminal.h"

namespace ropewalk {

/// What is to be seen of a run or sweep at one moment.
struct WatchFrame {
  std::string text;   ///< whole lines, for a terminal: state, progress, curves; of a sweep its runs
  std::string line;   ///< the same in short
  bool over = false;  ///< nothing writes it any more
};

/// Looks at the directory of a run or of a sweep, without hindering who writes it. A run whose log has not begun is
/// shown as waiting. `width` and `rows` are those of the terminal; the text keeps within them. Throws LogError for what
/// is neither, or cannot be read.
WatchFrame watch_frame(const std::string& directory, std::size_t width, std::size_t rows, const TextStyle& style);

/// Shows frames until the run or sweep is over: on a terminal redrawn in place every `every` seconds, elsewhere a line
/// where something changed. Throws as watch_frame().
void watch(const std::string& directory, double every);

}  // namespace ropewalk
