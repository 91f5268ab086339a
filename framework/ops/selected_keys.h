#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/ops/attention_operands.h"

namespace ropewalk {

/// Which of the keys of a batch belong to each sequence, as in AttentionOptions.
struct SequenceKeys {
  std::span<const int64_t> first_key = {};  ///< [B]; empty: 0
  std::span<const int64_t> key_end = {};    ///< [B]; empty: all

  KeyRange keys_of(int64_t b, int64_t keys) const {
    const int64_t end = key_end.empty() ? keys : key_end[static_cast<std::size_t>(b)];
    return {first_key.empty() ? 0 : std::min(first_key[static_cast<std::size_t>(b)], end), end};
  }
  /// Leading queries of sequence b that stand before its first key and are no tokens of it; all where it has no key.
  int64_t skipped_queries(int64_t b, int64_t queries, int64_t keys) const {
    const auto [begin, end] = keys_of(b, keys);
    return begin == end ? queries : std::clamp<int64_t>(begin - (keys - queries), 0, queries);
  }
};

/// The keys that each query of B sequences attends to. The memory belongs to the arena of the tape that was at work.
struct SelectedKeys {
  int64_t sequences = 0, queries = 0;
  int64_t width = 0;  ///< most keys that a query selects
  /// [sequences, queries, width], ascending in each row, -1 where there are fewer. A position counts from the first key
  /// of its sequence.
  const int32_t* positions = nullptr;

  const int32_t* row(int64_t b, int64_t t) const { return positions + (b * queries + t) * width; }
  int64_t count(int64_t b, int64_t t) const {
    const int32_t* first = row(b, t);
    return std::partition_point(first, first + width, [](int32_t j) { return j >= 0; }) - first;
  }
  /// Those of sequence b alone, from query `skipped` on.
  SelectedKeys sequence(int64_t b, int64_t skipped) const { return {1, queries - skipped, width, row(b, skipped)}; }
};

/// Throws unless `selected` has a row for each query, of positions of keys that ascend strictly, that the query sees
/// and that nothing but -1 follows.
void check_selected_keys(const char* op, const SelectedKeys& selected, const AttentionExtents& extents,
                         const AttentionOptions& options);

/// The keys that one query sees, as two ranges of which the second follows the first.
struct VisibleKeys {
  KeyRange globals, local;

  VisibleKeys(const AttentionMask& mask, int64_t i, int64_t keys) {
    const int64_t end = mask.causal ? std::min(i + 1, keys) : keys;
    local = {0, end};
    if (mask.window_radius < 0 || i < mask.global_tokens) return;
    local.begin = std::clamp<int64_t>(i - mask.window_radius, 0, end);
    local.end = std::min(end, i + mask.window_radius + 1);
    globals.end = std::min({mask.global_tokens, local.begin, end});
  }
  int64_t count() const { return globals.end - globals.begin + local.end - local.begin; }
  /// f(range) for those of the two that are not empty.
  template <class F>
  void for_each_range(F&& f) const {
    if (globals.begin < globals.end) f(globals);
    if (local.begin < local.end) f(local);
  }
};

/// What a run of queries sees together, the first of which stands at `first`.
struct VisibleSpan {
  KeyRange local;
  int64_t globals = 0;    ///< keys below this are seen as global tokens
  int64_t most_keys = 0;  ///< that one of the queries sees

  VisibleSpan(const AttentionMask& mask, int64_t first, int64_t queries, int64_t keys) : local{keys, 0} {
    for (int64_t i = first; i < first + queries; ++i) {
      const VisibleKeys visible(mask, i, keys);
      local = {std::min(local.begin, visible.local.begin), std::max(local.end, visible.local.end)};
      globals = std::max(globals, visible.globals.end);
      most_keys = std::max(most_keys, visible.count());
    }
  }
  /// Whether some of the keys [begin, begin + n) may be seen.
  bool meets(int64_t begin, int64_t n) const {
    return begin < globals || (begin < local.end && begin + n > local.begin);
  }
};

}  // namespace ropewalk
