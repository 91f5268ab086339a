#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ropewalk {

/// A target that the loss does not count.
inline constexpr int32_t kIgnored = -1;

/// How many targets the loss counts.
inline int64_t counted_targets(std::span<const int32_t> targets) {
  return std::ranges::count_if(targets, [](int32_t target) { return target >= 0; });
}

/// Sequences of equal length: `tokens` and `targets` are [sequences, length]. targets[i] is the token that the model
/// has to predict at position i (the next one), kIgnored where it is not counted.
struct Batch {
  int64_t sequences = 0;
  int64_t length = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;

  /// Sets the shape; memory is kept, so that batches of a size already seen allocate nothing.
  void resize(int64_t new_sequences, int64_t new_length) {
    sequences = new_sequences;
    length = new_length;
    tokens.resize(static_cast<std::size_t>(sequences * length));
    targets.resize(static_cast<std::size_t>(sequences * length));
  }

  std::span<int32_t> row_tokens(int64_t i) { return std::span(tokens).subspan(i * length, length); }
  std::span<int32_t> row_targets(int64_t i) { return std::span(targets).subspan(i * length, length); }
  int64_t counted() const { return counted_targets(targets); }
};

}  // namespace ropewalk
