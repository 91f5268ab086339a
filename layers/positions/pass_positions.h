#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace ropewalk {

/// A step of a training, by which what is random in it is drawn.
struct TrainingStep {
  uint64_t seed = 0;
  uint32_t step = 0;
};

/// By what randomized positions are drawn (see randomized.h); nobody else reads it.
struct PositionDraw {
  std::optional<TrainingStep> training = {};  ///< none: the same positions each time
  int64_t capacity =
      0;  ///< tokens that the passes may come to with a cache, of which this one holds the first; 0: these
};

/// Where the tokens of passes stand.
struct PassPositions {
  int64_t length = 0;  ///< tokens, those of a cache among them
  PositionDraw draw = {};
  std::span<const int32_t> at = {};  ///< [length], ascending; empty: 0, 1, ... Outlives the passes
  int64_t reach = 0;                 ///< every position lies in [0, reach)

  // One number is what most passes have.
  PassPositions(int64_t tokens, const PositionDraw& by = {}) : length(tokens), draw(by), reach(tokens) {}  // NOLINT
  PassPositions(std::span<const int32_t> positions, int64_t end)
      : length(static_cast<int64_t>(positions.size())), at(positions), reach(end) {}
};

}  // namespace ropewalk
