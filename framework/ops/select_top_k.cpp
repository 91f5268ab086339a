#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/select_top_k.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/index_rows-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/for_type.h"
#include "framework/ops/select_top_k.h"
#include "framework/ops/top_k_row.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void select_all(const IndexProblem<T>& p, const IndexScratch<T>& s, const AttentionMask& mask, int64_t top_k,
                Rank<T>* ranks, int32_t* out) {
  for (int64_t b = 0; b < p.B; ++b, out += p.queries * top_k) {
    const IndexProblem<T> one = p.sequence(b);
    int32_t* selected = std::fill_n(out, p.skipped_queries(b) * top_k, -1);
    if (one.queries == 0) continue;
    pack_index_keys(one, s, false);
    for (int64_t t0 = 0; t0 < one.queries; t0 += p.block()) {
      const int64_t rows = std::min(p.block(), one.queries - t0);
      const VisibleSpan span(mask, one.position(t0), rows, one.keys);
      // Where all are chosen there is nothing to compare.
      for (int64_t j0 = 0; j0 < one.keys && span.most_keys > top_k; j0 += kTileColumns) {
        if (span.meets(j0, kTileColumns)) index_tile(one, s, t0, rows, j0);
      }
      for (int64_t r = 0; r < rows; ++r) {
        top_k_row(s.scores + r * s.keys_pad, VisibleKeys(mask, one.position(t0 + r), one.keys), top_k, ranks,
                  selected + (t0 + r) * top_k);
      }
    }
  }
}

constexpr auto& SelectF32 = select_all<float>;
constexpr auto& SelectF64 = select_all<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(SelectF32);
HWY_EXPORT(SelectF64);

/// A row of k is as long as a query can see at most.
SelectedKeys make_selected(Arena& arena, int64_t sequences, int64_t queries, int64_t keys, int64_t top_k,
                           int32_t*& positions) {
  require(top_k >= 1, "select_top_k: {} keys a query; at least one must be selected", top_k);
  require(keys <= std::numeric_limits<int32_t>::max(), "select_top_k: {} keys; positions are 32-bit integers", keys);
  const int64_t width = std::min(top_k, keys);
  positions = arena.allocate<int32_t>(static_cast<std::size_t>(sequences * queries * width));
  return {sequences, queries, width, positions};
}

/// to [n] = the integers of a row as exact numbers; returns their scale.
template <class T>
float quantize_row(const T* x, int64_t n, float* to) {
  T largest = 0;
  bool finite = true;
  for (int64_t c = 0; c < n; ++c) {
    largest = std::max(largest, std::abs(x[c]));
    finite = finite && std::isfinite(x[c]);
  }
  const T scale = largest / T(127);
  const auto narrow = static_cast<float>(scale);
  if (!finite || !std::isnormal(scale) || !std::isnormal(narrow)) {
    std::fill(to, to + n, 0.0F);
    return finite && std::isfinite(narrow) ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  for (int64_t c = 0; c < n; ++c) to[c] = static_cast<float>(std::nearbyint(x[c] / scale));
  return narrow;
}

/// The problem in quantized numbers. Integers up to 127 and the sums of up to 1040 of their products are exact in f32,
/// in which vectors multiply as fast as in any other format that every processor has.
template <class T>
IndexProblem<float> quantize(const IndexProblem<T>& p, Arena& arena) {
  require(p.d <= kMostInt8Columns, "select_top_k: {} columns a head; sums of 8-bit products are exact up to {}", p.d,
          kMostInt8Columns);
  const int64_t query_rows = p.B * p.queries * p.heads;
  const int64_t key_rows = p.B * p.keys;
  const auto take = [&](int64_t n) { return arena.allocate<float>(static_cast<std::size_t>(n)); };
  float* q = take(query_rows * p.d);
  float* k = take(key_rows * p.d);
  float* w = take(query_rows);
  float* key_scale = take(key_rows);
  for (int64_t r = 0; r < query_rows; ++r) {
    w[r] = static_cast<float>(p.w[r]) * quantize_row(p.q + r * p.d, p.d, q + r * p.d);
  }
  for (int64_t r = 0; r < key_rows; ++r) key_scale[r] = quantize_row(p.k + r * p.d, p.d, k + r * p.d);
  return {p.B, p.queries, p.keys, p.heads, p.d, q, k, w, key_scale, p.first_position, p.sequences};
}

template <class T>
void select(const IndexProblem<T>& p, const AttentionMask& mask, int64_t width, Arena& arena, int32_t* positions) {
  const IndexScratch<T> scratch(arena, p, false);
  for_type<T>(HWY_DYNAMIC_DISPATCH(SelectF32), HWY_DYNAMIC_DISPATCH(SelectF64))(
      p, scratch, mask, width, arena.allocate<Rank<T>>(static_cast<std::size_t>(2 * p.keys)), positions);
}

}  // namespace

SelectedKeys select_top_k(Var q, Var k, Var w, int64_t top_k, const AttentionMask& mask, IndexPrecision precision,
                          const SequenceKeys& sequences) {
  Arena& arena = q.tape->arena();
  return dispatch(q.dtype(), [&]<class T>() {
    const IndexProblem<T> p = index_problem<T>("select_top_k", q, k, w, sequences);
    int32_t* positions = nullptr;
    const SelectedKeys out = make_selected(arena, p.B, p.queries, p.keys, top_k, positions);
    const Arena::Mark mark = arena.mark();
    if (precision == IndexPrecision::int8) {
      select(quantize(p, arena), mask, out.width, arena, positions);
    } else {
      select(p, mask, out.width, arena, positions);
    }
    arena.rewind(mark);
    return out;
  });
}

SelectedKeys select_top_k(Var scores, int64_t top_k, const AttentionMask& mask) {
  check_shape("select_top_k: scores", scores.shape(), {-1, -1, -1});
  const int64_t queries = scores.shape()[1];
  const int64_t keys = scores.shape()[2];
  require(queries <= keys, "select_top_k: {} queries for {} keys; queries stand at the end of the keys", queries, keys);
  Arena& arena = scores.tape->arena();
  int32_t* positions = nullptr;
  const SelectedKeys out = make_selected(arena, scores.shape()[0], queries, keys, top_k, positions);
  dispatch(scores.dtype(), [&]<class T>() {
    const Arena::Mark mark = arena.mark();
    auto* ranks = arena.allocate<Rank<T>>(static_cast<std::size_t>(2 * keys));
    for (int64_t row = 0; row < out.sequences * queries; ++row) {
      top_k_row(scores.value().data<T>() + row * keys, VisibleKeys(mask, keys - queries + row % queries, keys),
                out.width, ranks, positions + row * out.width);
    }
    arena.rewind(mark);
  });
  return out;
}

}  // namespace ropewalk
#endif  // HWY_ONCE
