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

/// One pair of a PairBatch.
struct PairRow {
  std::span<int32_t> source;
  std::span<int32_t> inputs;
  std::span<int32_t> targets;
};

/// Source -> target pairs for an encoder-decoder. Row i of `sources` [sequences, source_length] holds source_lengths[i]
/// tokens and then padding, which nothing may attend to. `inputs` and `targets` are [sequences, target_length]: the
/// decoder reads the begin token and the target, and has to predict the target and the end token; after them stand
/// padding in inputs and kIgnored in targets.
struct PairBatch {
  int64_t sequences = 0;
  int64_t source_length = 0;
  int64_t target_length = 0;
  std::vector<int32_t> sources;
  std::vector<int64_t> source_lengths;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;

  /// Sets the shape; memory is kept, so that batches of a size already seen allocate nothing.
  void resize(int64_t new_sequences, int64_t new_source_length, int64_t new_target_length) {
    sequences = new_sequences;
    source_length = new_source_length;
    target_length = new_target_length;
    sources.resize(static_cast<std::size_t>(sequences * source_length));
    source_lengths.resize(static_cast<std::size_t>(sequences));
    inputs.resize(static_cast<std::size_t>(sequences * target_length));
    targets.resize(static_cast<std::size_t>(sequences * target_length));
  }

  PairRow row(int64_t i) {
    return {.source = std::span(sources).subspan(i * source_length, source_length),
            .inputs = std::span(inputs).subspan(i * target_length, target_length),
            .targets = std::span(targets).subspan(i * target_length, target_length)};
  }
  int64_t counted() const { return counted_targets(targets); }
};

}  // namespace ropewalk
