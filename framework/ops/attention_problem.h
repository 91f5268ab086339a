#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/ops/attention.h"
#include "framework/ops/padding.h"

namespace ropewalk {

/// Where head h of sequence b begins and how far apart its rows are; columns are adjacent.
template <class T>
struct HeadsView {
  T* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;

  T* head(int64_t b, int64_t h) const { return data + b * batch_stride + h * head_stride; }
  explicit operator bool() const { return data != nullptr; }
};

/// Zeroes rows [begin, end) of every head of sequence b.
template <class T>
void clear_rows(const HeadsView<T>& view, int64_t b, int64_t heads, int64_t begin, int64_t end, int64_t columns) {
  if (!view) return;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t r = begin; r < end; ++r) std::fill_n(view.head(b, h) + r * view.row_stride, columns, T(0));
  }
}

/// A range of key positions.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// One call of attention, as its kernels see it.
template <class T>
struct AttentionProblem {
  int64_t B = 0, H = 0, G = 0, queries = 0, keys = 0, dk = 0, dv = 0;
  int64_t first_position = 0;  ///< where query 0 stands among the keys
  HeadsView<const T> q, k, v;
  HeadsView<T> y;
  T* lse = nullptr;        ///< row (b, h) at (b H + h) lse_stride; +infinity for a query that sees nothing
  int64_t lse_stride = 0;  ///< queries of the whole call
  T scale = 1;
  AttentionMask mask;
  const RotaryTable* rotary = nullptr;
  const int32_t* positions = nullptr;  ///< of the keys, ascending; null: 0, 1, ...
  const T* offset_bias = nullptr;      ///< row h at h bias_stride, from first_offset on
  int64_t bias_stride = 0;
  int64_t first_offset = 0;        ///< from the last query to key 0
  const T* distance = nullptr;     ///< of the distance bias, from first_offset on
  const T* normalizer = nullptr;   ///< of the query at position 0
  const T* line_knots = nullptr;   ///< [n_lines - 1]
  const T* line_slopes = nullptr;  ///< row h at h n_lines
  const T* line_values = nullptr;  ///< likewise, at 0
  int64_t n_lines = 0;
  const T* query_bias = nullptr;     ///< row h at h dk
  const T* relative_keys = nullptr;  ///< of head h from relative_head(h) dk on, rows relative_heads dk apart
  int64_t relative_heads = 1;        ///< 1 where the heads share them
  const T* relative_values = nullptr;
  int64_t clip = 0;
  AttentionStatistics* statistics = nullptr;

  // Backward only. Whether the first write stores or adds is one flag for each.
  HeadsView<const T> dy;
  HeadsView<T> dq, dk_out, dv_out;
  bool add_dq = false, add_dk = false, add_dv = false;
  T* d_offset_bias = nullptr;
  T* d_distance = nullptr;
  T* d_normalizer = nullptr;
  T* d_line_slopes = nullptr;
  T* d_line_values = nullptr;
  T* d_query_bias = nullptr;
  T* d_relative_keys = nullptr;
  T* d_relative_values = nullptr;

  // Of the whole call only: which keys belong to sequence b, from first_key[b] to key_end[b]; null: all.
  const int64_t* first_key = nullptr;
  const int64_t* key_end = nullptr;

  /// Where key j stands, by which offsets are counted.
  int64_t place(int64_t j) const { return positions != nullptr ? positions[j] : j; }
  /// From key 0 to the last query, which stands farthest from it.
  int64_t farthest() const { return place(0) - place(position(queries - 1)); }
  /// Columns of offset_bias that are read.
  int64_t offsets() const { return place(keys - 1) - place(first_position) - first_offset + 1; }
  /// The same of whichever sequence reads most.
  int64_t most_offsets() const { return positions != nullptr ? 1 - 2 * first_offset : offsets(); }
  /// Column of the offset of key j from a query at i among offsets().
  int64_t offset_column(int64_t i, int64_t j) const { return place(j) - place(i) - first_offset; }
  /// The line of the distance bias at x; it begins at knot line - 1.
  int64_t line_at(T x) const { return std::upper_bound(line_knots, line_knots + n_lines - 1, x) - line_knots; }
  /// The distance bias of a pair.
  T distance_bias(int64_t h, int64_t i, int64_t j) const {
    const T x = distance[offset_column(i, j)] * normalizer[place(i)];
    const int64_t line = h * n_lines + line_at(x);
    return line_slopes[line] * x + line_values[line];
  }
  /// Passes on the gradient of the score of a pair.
  void add_distance_gradient(int64_t h, int64_t i, int64_t j, T ds) const {
    const int64_t column = offset_column(i, j);
    const T scale_of_query = normalizer[place(i)];
    const int64_t line = h * n_lines + line_at(distance[column] * scale_of_query);
    if (d_line_slopes != nullptr) {
      d_line_slopes[line] += ds * distance[column] * scale_of_query;
      d_line_values[line] += ds;
    }
    if (d_distance != nullptr) d_distance[column] += ds * line_slopes[line] * scale_of_query;
    if (d_normalizer != nullptr) d_normalizer[place(i)] += ds * line_slopes[line] * distance[column];
  }
  int64_t relative_rows() const { return 2 * clip + 1; }
  int64_t relative_head(int64_t h) const { return relative_heads > 1 ? h : 0; }
  const T* relative_key(int64_t h, int64_t row) const {
    return relative_keys + (row * relative_heads + relative_head(h)) * dk;
  }
  /// Row of the relative keys and values that belongs to this pair.
  int64_t relative_row(int64_t i, int64_t j) const { return std::clamp(place(j) - place(i), -clip, clip) + clip; }
  int64_t position(int64_t t) const { return first_position + t; }
  KeyRange keys_of(int64_t b) const {
    const int64_t end = key_end != nullptr ? key_end[b] : keys;
    return {first_key != nullptr ? std::min(first_key[b], end) : 0, end};
  }
  /// Leading queries of sequence b that stand before its first key and are no tokens of it.
  int64_t skipped_queries(int64_t b) const {
    return first_key == nullptr ? 0 : std::clamp<int64_t>(first_key[b] - first_position, 0, queries);
  }

  /// Sequence b alone, its own keys counted from 0.
  AttentionProblem sequence(int64_t b) const {
    AttentionProblem one = *this;
    const auto [begin, end] = keys_of(b);
    const int64_t skipped = skipped_queries(b);
    const auto rows_from = [&](auto view, int64_t row) {
      if (view) view.data += b * view.batch_stride + row * view.row_stride;
      return view;
    };
    one.B = 1;
    one.first_key = one.key_end = nullptr;
    one.keys = end - begin;
    one.queries = queries - skipped;
    one.first_position = first_position + skipped - begin;
    one.q = rows_from(q, skipped);
    one.y = rows_from(y, skipped);
    one.dy = rows_from(dy, skipped);
    one.dq = rows_from(dq, skipped);
    one.k = rows_from(k, begin);
    one.v = rows_from(v, begin);
    one.dk_out = rows_from(dk_out, begin);
    one.dv_out = rows_from(dv_out, begin);
    if (lse != nullptr) one.lse = lse + b * H * lse_stride + skipped;
    if (one.keys == 0 || one.queries == 0) return one;
    // The offset of the last query to the sequence's first key is less far from 0.
    one.first_offset = one.farthest();
    const auto nearer = [&](auto*& column) {
      if (column != nullptr) column += one.first_offset - first_offset;
    };
    nearer(one.offset_bias);
    nearer(one.d_offset_bias);
    nearer(one.distance);
    nearer(one.d_distance);
    return one;
  }

  /// The keys that the query at position i sees, those of the global tokens left out unless they are adjacent.
  KeyRange local_keys(int64_t i) const {
    KeyRange range{0, mask.causal ? i + 1 : keys};
    if (mask.window_radius >= 0 && i >= mask.global_tokens) {
      range.begin = std::max<int64_t>(0, i - mask.window_radius);
      range.end = std::min(range.end, i + mask.window_radius + 1);
    }
    range.end = std::min(range.end, keys);
    return range;
  }
  /// With a window, keys below this are seen by every query (causality apart).
  int64_t global_keys() const { return mask.window_radius >= 0 ? std::min(mask.global_tokens, keys) : 0; }
};

/// Memory that the kernels use while they run, in rows padded to whole vectors.
template <class T>
struct AttentionScratch {
  static constexpr int64_t kPad = 64 / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kRows = 64;  ///< queries a tile
  static constexpr int64_t kCols = 64;  ///< keys a tile

  static int64_t padded(int64_t n) { return padded_width<T>(n); }

  int64_t dk_pad, dv_pad, keys_pad, relative_pad;
  T* q;        // [queries, at least kRows, dk_pad], scaled and rotated
  T* kt;       // [dk, keys_pad], rotated
  T* v;        // [keys, dv_pad]
  T* s;        // [kRows, kCols] scores, then probabilities
  T* o;        // [kRows, dv_pad]
  T* bias;     // [offsets, and a tile beyond]
  T* row_max;  // [kRows]
  T* row_sum;  // [kRows]
  T* row_dot;  // [kRows] sum of p s, for the entropy
  T* rel_t;    // [relative heads, dk, relative_pad]
  T* qa;       // [kRows, relative_pad]
  T* k;        // [keys, dk_pad], rotated
  T* rel_p;    // [kRows, relative_pad] probabilities summed by row of the relative values
  T* rel_v;    // [relative rows, dv_pad]
  // backward
  T* vt;       // [dv, keys_pad]
  T* dy;       // [queries, dv_pad]
  T* ds;       // [kRows, kCols]
  T* dq;       // [kRows, dk_pad]
  T* dk;       // [keys, dk_pad]
  T* dv;       // [keys, dv_pad]
  T* d_bias;   // as bias
  T* rel;      // [relative heads, relative rows, dk_pad]
  T* d_rel;    // as rel
  T* dqa;      // [kRows, relative_pad]
  T* rel_vt;   // [dv, relative_pad]
  T* dya;      // [kRows, relative_pad] dy . relative values
  T* d_rel_v;  // [relative rows, dv_pad]
  T* delta;    // [queries] D_i

  AttentionScratch(Arena& arena, const AttentionProblem<T>& p, bool backward) {
    dk_pad = padded(p.dk);
    dv_pad = padded(p.dv);
    keys_pad = (p.keys + kCols - 1) / kCols * kCols;
    const int64_t key_rows = p.relative_keys != nullptr ? p.relative_rows() : 0;
    const int64_t value_rows = p.relative_values != nullptr ? p.relative_rows() : 0;
    relative_pad = padded(std::max(key_rows, value_rows));
    const auto take = [&](int64_t n) { return arena.allocate<T>(static_cast<std::size_t>(n)); };
    q = take(std::max(p.queries, kRows) * dk_pad);
    kt = take(p.dk * keys_pad);
    v = take(p.keys * dv_pad);
    k = take(p.keys * dk_pad);
    s = take(kRows * kCols);
    o = take(kRows * dv_pad);
    const int64_t bias_size = p.offset_bias != nullptr ? p.most_offsets() + 2 * kCols : 1;
    bias = take(bias_size);
    row_max = take(kRows);
    row_sum = take(kRows);
    row_dot = take(kRows);
    rel_t = take(key_rows > 0 ? p.relative_heads * p.dk * relative_pad : 0);
    qa = take(kRows * relative_pad);
    rel = take(p.relative_heads * key_rows * dk_pad);
    rel_p = take(value_rows > 0 ? kRows * relative_pad : 0);
    rel_v = take(value_rows * dv_pad);
    if (!backward) return;
    vt = take(p.dv * keys_pad);
    dy = take(p.queries * dv_pad);
    ds = take(kRows * kCols);
    dq = take(kRows * dk_pad);
    dk = take(keys_pad * dk_pad);
    dv = take(keys_pad * dv_pad);
    d_bias = take(bias_size);
    d_rel = take(p.relative_heads * key_rows * dk_pad);
    rel_vt = take(value_rows > 0 ? p.dv * relative_pad : 0);
    dya = take(value_rows > 0 ? kRows * relative_pad : 0);
    d_rel_v = take(value_rows * dv_pad);
    dqa = take(kRows * relative_pad);
    delta = take(p.queries);
  }
};

}  // namespace ropewalk
