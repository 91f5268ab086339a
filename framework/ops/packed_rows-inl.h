// Rows of operands copied to where their width is a whole number of vectors, as small_gemm wants them. Included by the
// .cpp of an op for every instruction set.

#if defined(ROPEWALK_PACKED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_PACKED_ROWS_INL_H_
#undef ROPEWALK_PACKED_ROWS_INL_H_
#else
#define ROPEWALK_PACKED_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/ops/attention_problem.h"
#include "framework/ops/padding.h"
#include "framework/ops/rotate_rows.h"
#include "framework/ops/small_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// How a row is turned: as a query or a key at a position; without a table not at all.
struct Turn {
  const RotaryTable* table = nullptr;
  RotarySide side = RotarySide::queries;
  int64_t position = 0;

  template <class T>
  HWY_INLINE void apply(T* row, bool inverse) const {
    rotate_rows(table, side, position, 1, 0, inverse, row);
  }
};

/// to [padded_width<T>(n)] = scale * from [n], turned; zeros beyond n.
template <class T>
HWY_INLINE void pack_row(const T* from, int64_t n, T scale, const Turn& turn, T* to) {
  vectorise<T>(n, [&](auto d, int64_t c)
                      HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, scale)), d, to + c); });
  std::fill(to + n, to + padded_width<T>(n), T(0));
  turn.apply(to, false);
}

/// to = scale * (query t of head h of the only sequence + its bias), turned as it stands.
template <class T>
HWY_INLINE void pack_query(const AttentionProblem<T>& p, int64_t h, int64_t t, T* to) {
  const T* q = p.q.head(0, h) + t * p.q.row_stride;
  const Turn turn{p.rotary, RotarySide::queries, p.position(t)};
  if (p.query_bias == nullptr) return pack_row<T>(q, p.dk, p.scale, turn, to);
  const T* bias = p.query_bias + h * p.dk;
  vectorise<T>(p.dk, [&](auto d, int64_t c)
                         HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, q + c), hn::LoadU(d, bias + c)), d, to + c); });
  pack_row<T>(to, p.dk, p.scale, turn, to);
}

/// to [relative heads, relative rows, padded_width<T>(dk)]: the relative keys, those of a head together.
template <class T>
HWY_INLINE void pack_relative_keys(const AttentionProblem<T>& p, T* to) {
  if (p.relative_keys == nullptr) return;
  for (int64_t h = 0; h < p.relative_heads; ++h) {
    for (int64_t r = 0; r < p.relative_rows(); ++r, to += padded_width<T>(p.dk)) {
      pack_row<T>(p.relative_key(h, r), p.dk, T(1), {}, to);
    }
  }
}

/// The way back of a gradient: turns `from` back in place, then to [n] = or += scale * from.
template <class T>
HWY_INLINE void unpack_row(T* from, int64_t n, T scale, const Turn& turn, bool add, T* to) {
  turn.apply(from, true);
  vectorise<T>(n, [&](auto d, int64_t c)
                      HWY_ATTR { store_or_add(d, add, hn::Mul(hn::LoadU(d, from + c), hn::Set(d, scale)), to + c); });
}

/// tiles[j / kTileColumns] [n, kTileColumns] = the rows from [rows, n] (ld apart) transposed; zeros beyond the last
/// row.
template <class T>
HWY_INLINE void pack_tiles(const T* from, int64_t rows, int64_t n, int64_t ld, T* tiles) {
  for (int64_t j0 = 0; j0 < rows; j0 += kTileColumns) {
    T* tile = tiles + j0 * n;
    const int64_t columns = std::min(kTileColumns, rows - j0);
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t j = 0; j < columns; ++j) tile[c * kTileColumns + j] = from[(j0 + j) * ld + c];
      std::fill(tile + c * kTileColumns + columns, tile + (c + 1) * kTileColumns, T(0));
    }
  }
}

/// Whether every element is so small that a product with another such sums up without overflow: then what a mask
/// multiplies by zero is zero. False where there is a NaN or an infinity.
template <class T>
HWY_INLINE bool products_are_finite(const T* x, int64_t n) {
  // What reaches 2^kSafeExponent becomes infinite times this, and infinity times 0 is NaN.
  const T to_infinity = std::ldexp(T(1), std::numeric_limits<T>::max_exponent - kSafeExponent<T>);
  return sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR {
           return hn::Mul(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, to_infinity)), hn::Zero(d));
         }) == T(0);
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_PACKED_ROWS_INL_H_
