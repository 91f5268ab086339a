#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/attention.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/attention_few-inl.h"
#include "framework/ops/small_gemm-inl.h"

#include <cstring>
#include <type_traits>

#include "framework/for_type.h"
#include "framework/ops/attention.h"
#include "framework/ops/attention_operands.h"
#include "framework/ops/attention_problem.h"
#include "framework/ops/attention_rows.h"
#include "framework/ops/checks.h"
#include "framework/ops/padding.h"
#include "framework/ops/rotate_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void clear(T* x, int64_t n) {
  std::memset(x, 0, static_cast<std::size_t>(n) * sizeof(T));
}

/// to [rows, padded] = scale * (from [rows, n] + added [n], which may be null), filled up with zeros. Returns false
/// where an element is a NaN, an infinity or so great that a product of masked elements could become one.
template <class T>
bool pack_rows(const T* from, int64_t row_stride, int64_t rows, int64_t n, int64_t padded, T scale,
               const std::type_identity_t<T>* added, T* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // What reaches 2^kSafeExponent becomes infinite times this, and infinity times 0 is NaN.
  const T to_infinity = std::ldexp(T(1), std::numeric_limits<T>::max_exponent - kSafeExponent<T>);
  auto zero_if_safe = hn::Zero(d);
  T rest_if_safe = 0;
  const int64_t whole = n / lanes * lanes;
  for (int64_t r = 0; r < rows; ++r, from += row_stride, to += padded) {
    for (int64_t c = 0; c < whole; c += lanes) {
      auto x = hn::LoadU(d, from + c);
      if (added != nullptr) x = hn::Add(x, hn::LoadU(d, added + c));
      x = hn::Mul(x, hn::Set(d, scale));
      hn::StoreU(x, d, to + c);
      zero_if_safe = hn::MulAdd(hn::Mul(x, hn::Set(d, to_infinity)), hn::Zero(d), zero_if_safe);
    }
    for (int64_t c = whole; c < n; ++c) {
      to[c] = (added != nullptr ? from[c] + added[c] : from[c]) * scale;
      rest_if_safe += to[c] * to_infinity * T(0);
    }
    for (int64_t c = n; c < padded; ++c) to[c] = 0;
  }
  return hn::GetLane(hn::SumOfLanes(d, zero_if_safe)) + rest_if_safe == T(0);
}

/// to [columns, padded_rows] = from [rows, columns]^T, the columns beyond rows zero.
template <class T>
void transpose(const T* from, int64_t rows, int64_t columns, int64_t ld, int64_t padded_rows, T* to) {
  int64_t turned_rows = 0;
  int64_t turned_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = 16 / sizeof(T);
  turned_rows = rows / kSide * kSide;
  turned_columns = columns / kSide * kSide;
  for (int64_t r = 0; r < turned_rows; r += kSide) {
    for (int64_t c = 0; c < turned_columns; c += kSide) {
      transpose_square(from + r * ld + c, ld, to + c * padded_rows + r, padded_rows);
    }
  }
#endif
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = c < turned_columns ? turned_rows : 0; r < rows; ++r) to[c * padded_rows + r] = from[r * ld + c];
    for (int64_t r = rows; r < padded_rows; ++r) to[c * padded_rows + r] = 0;
  }
}

/// What the mask leaves of one tile: for each row the local keys as columns of the tile, and the columns to compute.
struct TileMask {
  int64_t begin[64];
  int64_t end[64];
  int64_t width[64];    ///< columns that are computed for the panel of a row, in whole vectors
  int64_t columns = 0;  ///< columns at and beyond this are hidden from every row
  bool empty = true;
  bool full = true;    ///< nothing to hide, not even columns that only fill up the last vector
  int64_t global = 0;  ///< leading columns that belong to global tokens
};

template <class T>
TileMask tile_mask(const AttentionProblem<T>& p, int64_t t0, int64_t rows, int64_t j0, int64_t columns) {
  TileMask tile;
  tile.global = std::clamp<int64_t>(p.global_keys() - j0, 0, columns);
  const auto local = [&](int64_t r) {
    const KeyRange keys = p.local_keys(p.position(t0 + r));
    return KeyRange{std::clamp<int64_t>(keys.begin - j0, 0, columns), std::clamp<int64_t>(keys.end - j0, 0, columns)};
  };
  tile.full = columns == AttentionScratch<T>::padded(columns);
  // Seen whole by the first row and the last is seen whole by those between, unless the first sees all as a global
  // token.
  const KeyRange first = local(0);
  const KeyRange last = local(rows - 1);
  if (std::max(first.begin, last.begin) == 0 && std::min(first.end, last.end) == columns && tile.global == 0 &&
      (p.mask.window_radius < 0 || p.position(t0) >= p.mask.global_tokens)) {
    std::fill(tile.begin, tile.begin + rows, int64_t{0});
    std::fill(tile.end, tile.end + rows, columns);
    std::fill(tile.width, tile.width + rows, AttentionScratch<T>::padded(columns));
    tile.columns = columns;
    tile.empty = false;
    return tile;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const KeyRange keys = local(r);
    tile.begin[r] = keys.begin;
    tile.end[r] = keys.end;
    const int64_t i = p.position(t0 + r);
    const int64_t seen_globals = p.mask.causal ? std::clamp<int64_t>(i + 1 - j0, 0, tile.global) : tile.global;
    if (keys.end > keys.begin || seen_globals > 0) tile.empty = false;
    if (keys.begin > 0 || keys.end < columns) tile.full = false;
    tile.columns = std::max({tile.columns, keys.end, seen_globals});
  }
  for (int64_t r = 0; r < rows;) {
    const int64_t n = panel_rows(rows - r);
    const int64_t end = std::max(*std::max_element(tile.end + r, tile.end + r + n), tile.global > 0 ? tile.columns : 0);
    std::fill(tile.width + r, tile.width + r + n, AttentionScratch<T>::padded(end));
    r += n;
  }
  return tile;
}

/// Hides the masked scores of one row of a tile up to `width`.
template <class T>
void hide(const AttentionProblem<T>& p, const TileMask& tile, int64_t i, int64_t r, int64_t j0, int64_t width, T* s) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  const int64_t seen_globals = p.mask.causal ? std::clamp<int64_t>(i + 1 - j0, 0, tile.global) : tile.global;
  const int64_t begin = tile.end[r] > tile.begin[r] ? tile.begin[r] : 0;
  const int64_t end = tile.end[r] > tile.begin[r] ? tile.end[r] : 0;
  for (int64_t c = seen_globals; c < begin; ++c) s[c] = kHidden;
  for (int64_t c = std::max(end, seen_globals); c < width; ++c) s[c] = kHidden;
}

template <class T>
class Head {
 public:
  Head(const AttentionProblem<T>& problem, const AttentionScratch<T>& scratch) : p(problem), w(scratch) {}

  // Keys and values of one key/value head; true where all are finite.
  bool pack_keys(int64_t g, bool backward) {
    const bool finite_k = pack_rows(p.k.head(0, g), p.k.row_stride, p.keys, p.dk, w.dk_pad, T(1), nullptr, w.k);
    rotate_rows(p.rotary, RotarySide::keys, 0, p.keys, w.dk_pad, false, w.k);
    transpose(w.k, p.keys, p.dk, w.dk_pad, w.keys_pad, w.kt);
    const bool finite_v = pack_rows(p.v.head(0, g), p.v.row_stride, p.keys, p.dv, w.dv_pad, T(1), nullptr, w.v);
    if (backward) transpose(w.v, p.keys, p.dv, w.dv_pad, w.keys_pad, w.vt);
    return finite_k && finite_v;
  }

  bool pack_queries(int64_t h) {
    h_ = h;
    const T* added = p.query_bias != nullptr ? p.query_bias + h * p.dk : nullptr;
    bool finite = pack_rows(p.q.head(0, h), p.q.row_stride, p.queries, p.dk, w.dk_pad, p.scale, added, w.q);
    rotate_rows(p.rotary, RotarySide::queries, p.position(0), p.queries, w.dk_pad, false, w.q);
    if (p.offset_bias != nullptr) {
      const T* bias = p.offset_bias + h * p.bias_stride;
      std::memcpy(w.bias, bias, static_cast<std::size_t>(p.offsets()) * sizeof(T));
      clear(w.bias + p.offsets(), 2 * AttentionScratch<T>::kCols);
      // Infinity times 0 is NaN. A bias of -infinity is legal, and goes by rows like the rest.
      const T zero_if_finite = sum_of<T>(
          p.offsets(), [&](auto d, int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, bias + i), hn::Zero(d)); });
      finite = finite && zero_if_finite == T(0);
    }
    return finite;
  }

  // Relative keys and values; true where all are finite, and so is what the distance bias is made of.
  bool pack_relative(bool backward) {
    const int64_t rows = p.relative_rows();
    bool finite = p.distance == nullptr || finite_distance_bias();
    if (p.relative_keys != nullptr) {
      if (backward) clear(w.d_rel, p.relative_heads * rows * w.dk_pad);
      for (int64_t h = 0; h < p.relative_heads; ++h) {
        const T* from = p.relative_key(h, 0);
        const int64_t stride = p.relative_heads * p.dk;
        transpose(from, rows, p.dk, stride, w.relative_pad, w.rel_t + h * p.dk * w.relative_pad);
        finite = pack_rows(from, stride, rows, p.dk, w.dk_pad, T(1), nullptr, w.rel + h * rows * w.dk_pad) && finite;
      }
    }
    if (p.relative_values != nullptr) {
      if (backward) transpose(p.relative_values, rows, p.dv, p.dv, w.relative_pad, w.rel_vt);
      if (backward) clear(w.d_rel_v, rows * w.dv_pad);
      finite = pack_rows(p.relative_values, p.dv, rows, p.dv, w.dv_pad, T(1), nullptr, w.rel_v) && finite;
    }
    return finite;
  }

  void forward(int64_t h, bool finite_keys) {
    const bool finite = pack_queries(h) && finite_keys;
    T* lse = p.lse + h * p.lse_stride;
    T* y = p.y.head(0, h);
    double* entropy = p.statistics != nullptr ? p.statistics->entropy + h : nullptr;
    double* max_logit = p.statistics != nullptr ? p.statistics->max_logit + h : nullptr;
    if (!finite) {
      const AttentionRows<T> rows{p, w, h, p.offset_bias != nullptr ? w.bias : nullptr};
      for (int64_t t = 0; t < p.queries; ++t) lse[t] = rows.forward(t, y + t * p.y.row_stride, entropy, max_logit);
      return;
    }
    for (int64_t t0 = 0; t0 < p.queries; t0 += kRows) {
      const int64_t rows = std::min<int64_t>(kRows, p.queries - t0);
      forward_rows(t0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        const T sum = w.row_sum[r];
        T* out = y + (t0 + r) * p.y.row_stride;
        if (sum == 0) {
          for (int64_t c = 0; c < p.dv; ++c) out[c] = 0;
          lse[t0 + r] = std::numeric_limits<T>::infinity();
          continue;
        }
        const T inverse = T(1) / sum;
        const T* o = w.o + r * w.dv_pad;
        vectorise<T>(p.dv, [&](auto d, int64_t c)
                               HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, o + c), hn::Set(d, inverse)), d, out + c); });
        lse[t0 + r] = w.row_max[r] + std::log(sum);
        if (p.statistics != nullptr) {
          *entropy += static_cast<double>(lse[t0 + r] - w.row_dot[r] * inverse);
          *max_logit = std::max(*max_logit, static_cast<double>(w.row_max[r]));
        }
      }
    }
  }

  void backward(int64_t h, bool finite_keys) {
    const bool finite_queries = pack_queries(h);
    const bool finite_dy = pack_rows(p.dy.head(0, h), p.dy.row_stride, p.queries, p.dv, w.dv_pad, T(1), nullptr, w.dy);
    const bool finite = finite_queries && finite_dy && finite_keys;
    const T* lse = p.lse + h * p.lse_stride;
    const T* y = p.y.head(0, h);
    for (int64_t t = 0; t < p.queries; ++t) {
      w.delta[t] = sum_of<T>(p.dv, [&](auto d, int64_t c) HWY_ATTR {
        return hn::Mul(hn::LoadU(d, w.dy + t * w.dv_pad + c), hn::LoadU(d, y + t * p.y.row_stride + c));
      });
    }
    T* d_bias = p.d_offset_bias != nullptr ? w.d_bias : nullptr;
    if (d_bias != nullptr) clear(d_bias, p.offsets() + 2 * AttentionScratch<T>::kCols);
    for (int64_t t0 = 0; t0 < p.queries; t0 += kRows) {
      const int64_t rows = std::min<int64_t>(kRows, p.queries - t0);
      if (finite) {
        backward_rows(t0, rows, lse, d_bias);
      } else {
        const AttentionRows<T> by_row{p, w, h, p.offset_bias != nullptr ? w.bias : nullptr};
        for (int64_t r = 0; r < rows; ++r)
          by_row.backward(t0 + r, lse[t0 + r], w.delta[t0 + r], w.dq + r * w.dk_pad, d_bias);
      }
      if (!p.dq && p.d_query_bias == nullptr) continue;
      rotate_rows(p.rotary, RotarySide::queries, p.position(t0), rows, w.dk_pad, true, w.dq);
      if (p.dq) {
        unpack_rows(w.dq, rows, w.dk_pad, p.scale, p.add_dq, p.dk, p.dq.head(0, h) + t0 * p.dq.row_stride,
                    p.dq.row_stride);
      }
      for (int64_t r = 0; r < rows && p.d_query_bias != nullptr; ++r) {
        for (int64_t c = 0; c < p.dk; ++c) p.d_query_bias[h * p.dk + c] += w.dq[r * w.dk_pad + c] * p.scale;
      }
    }
    if (d_bias != nullptr) {
      T* total = p.d_offset_bias + h * p.bias_stride;
      vectorise<T>(p.offsets(), [&](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, total + i), hn::LoadU(d, d_bias + i)), d, total + i);
      });
    }
  }

  void unpack_keys(int64_t g) {
    if (p.dk_out) {
      rotate_rows(p.rotary, RotarySide::keys, 0, p.keys, w.dk_pad, true, w.dk);
      unpack_rows(w.dk, p.keys, w.dk_pad, T(1), p.add_dk, p.dk, p.dk_out.head(0, g), p.dk_out.row_stride);
    }
    if (p.dv_out) {
      unpack_rows(w.dv, p.keys, w.dv_pad, T(1), p.add_dv, p.dv, p.dv_out.head(0, g), p.dv_out.row_stride);
    }
  }

  void unpack_relative() {
    if (p.d_relative_keys != nullptr) {
      for (int64_t h = 0; h < p.relative_heads; ++h) {
        unpack_rows(w.d_rel + h * p.relative_rows() * w.dk_pad, p.relative_rows(), w.dk_pad, T(1), true, p.dk,
                    p.d_relative_keys + h * p.dk, p.relative_heads * p.dk);
      }
    }
    if (p.d_relative_values != nullptr) {
      unpack_rows(w.d_rel_v, p.relative_rows(), w.dv_pad, T(1), true, p.dv, p.d_relative_values, p.dv);
    }
  }

 private:
  static constexpr int64_t kRows = AttentionScratch<T>::kRows;
  static constexpr int64_t kCols = AttentionScratch<T>::kCols;

  bool finite_distance_bias() const {
    const auto finite = [](const T* x, int64_t n) {
      return sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, x + i), hn::Zero(d)); }) ==
             T(0);
    };
    return finite(p.distance, p.offsets()) && finite(p.normalizer, p.place(p.keys - 1) + 1) &&
           finite(p.line_slopes, p.H * p.n_lines) && finite(p.line_values, p.H * p.n_lines);
  }

  /// to [rows, n] (rows ld apart) = or += scale * from [rows, padded].
  static void unpack_rows(const T* from, int64_t rows, int64_t padded, T scale, bool add, int64_t n, T* to,
                          int64_t ld) {
    for (int64_t r = 0; r < rows; ++r, from += padded, to += ld) {
      vectorise<T>(n, [&](auto d, int64_t c) HWY_ATTR {
        store_or_add(d, add, hn::Mul(hn::LoadU(d, from + c), hn::Set(d, scale)), to + c);
      });
    }
  }

  /// w.s = the scores of a tile, hidden ones -infinity, up to the width of each panel.
  void scores(int64_t t0, int64_t rows, int64_t j0, const TileMask& tile) {
    small_gemm<T>(rows, kCols, p.dk, {w.q + t0 * w.dk_pad, w.dk_pad, 1}, w.kt + j0, w.keys_pad, false, w.s, kCols,
                  [&](int64_t r, int64_t, int64_t&, int64_t&, int64_t& width) { width = tile.width[r]; });
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t r = 0; r < rows; ++r) {
      T* s = w.s + r * kCols;
      const int64_t i = p.position(t0 + r);
      const int64_t width = tile.width[r];
      const int64_t keys = std::min(width, p.keys - j0);
      if (p.offset_bias != nullptr && p.positions != nullptr) {
        for (int64_t c = 0; c < keys; ++c) s[c] += w.bias[p.offset_column(i, j0 + c)];
      } else if (p.offset_bias != nullptr) {
        const T* bias = w.bias + p.offset_column(i, j0);
        for (int64_t c = 0; c < width; c += lanes) {
          hn::StoreU(hn::Add(hn::LoadU(d, s + c), hn::LoadU(d, bias + c)), d, s + c);
        }
      }
      if (p.distance != nullptr) add_distance_bias(p, h_, i, j0, keys, s);
      if (p.relative_keys != nullptr) {
        const T* qa = w.qa + r * w.relative_pad;
        for (int64_t c = 0; c < keys; ++c) s[c] += qa[p.relative_row(i, j0 + c)];
      }
      if (!tile.full) hide(p, tile, i, r, j0, width, s);
    }
  }

  /// f(j0, tile) for every tile of keys that some of these rows see: those of the global tokens, then the local ones.
  template <class F>
  HWY_INLINE void for_tiles(int64_t t0, int64_t rows, F&& f) {
    // The range of a row grows with its position, but for a global token's, which begins at 0.
    const KeyRange first = p.local_keys(p.position(t0));
    const KeyRange last = p.local_keys(p.position(t0 + rows - 1));
    const int64_t begin = std::min(first.begin, last.begin) / kCols * kCols;
    const int64_t end = std::max(first.end, last.end);
    for (int64_t j0 = 0; j0 < std::max(end, p.global_keys()); j0 += kCols) {
      if (j0 >= p.global_keys() && j0 < begin) j0 = begin;
      const TileMask tile = tile_mask(p, t0, rows, j0, std::min<int64_t>(kCols, p.keys - j0));
      if (!tile.empty) f(j0, tile);
    }
  }

  /// Rows of the relative keys and values that the tiles of these queries can read, from and to whole vectors.
  KeyRange relative_range(int64_t t0, int64_t rows) const {
    if (w.relative_pad == 0) return {};
    const KeyRange first = p.local_keys(p.position(t0));
    const KeyRange last = p.local_keys(p.position(t0 + rows - 1));
    const int64_t seen = std::max({first.end, last.end, p.global_keys()});
    const int64_t end = std::min((seen + kCols - 1) / kCols * kCols, p.keys);
    const int64_t begin = p.global_keys() > 0 ? 0 : std::min({first.begin, last.begin, end - 1}) / kCols * kCols;
    constexpr int64_t kPad = AttentionScratch<T>::kPad;
    return {p.relative_row(p.position(t0 + rows - 1), begin) / kPad * kPad,
            AttentionScratch<T>::padded(p.relative_row(p.position(t0), end - 1) + 1)};
  }

  /// to [rows, relative_pad], within the range = from [rows, columns] . table, which is turned.
  void relative_products(const T* from, int64_t stride, int64_t rows, int64_t columns, const T* table, T* to) const {
    small_gemm<T>(rows, range_.end - range_.begin, columns, {from, stride, 1}, table + range_.begin, w.relative_pad,
                  false, to + range_.begin, w.relative_pad);
  }

  void clear_relative(int64_t rows, T* x) const {
    for (int64_t r = 0; r < rows; ++r) clear(x + r * w.relative_pad + range_.begin, range_.end - range_.begin);
  }

  /// Relative rows of the range, without those that only fill up the last vector.
  int64_t range_rows() const { return std::min(range_.end, p.relative_rows()) - range_.begin; }

  void relative_scores(int64_t t0, int64_t rows) {
    range_ = relative_range(t0, rows);
    if (p.relative_keys == nullptr) return;
    relative_products(w.q + t0 * w.dk_pad, w.dk_pad, rows, p.dk, w.rel_t + p.relative_head(h_) * p.dk * w.relative_pad,
                      w.qa);
  }

  void forward_rows(int64_t t0, int64_t rows) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    for (int64_t r = 0; r < rows; ++r) {
      w.row_max[r] = kHidden;
      w.row_sum[r] = 0;
      w.row_dot[r] = 0;
    }
    clear(w.o, rows * w.dv_pad);
    relative_scores(t0, rows);
    if (p.relative_values != nullptr) clear_relative(rows, w.rel_p);
    bool first = true;
    for_tiles(t0, rows, [&](int64_t j0, const TileMask& tile) HWY_ATTR {
      scores(t0, rows, j0, tile);
      HWY_ALIGN T now[kRows];
      HWY_ALIGN T shrink[kRows];
      for (int64_t r = 0; r < rows; ++r) {
        const T* s = w.s + r * kCols;
        auto largest = hn::Set(d, kHidden);
        for (int64_t c = 0; c < tile.width[r]; c += lanes) largest = hn::Max(largest, hn::LoadU(d, s + c));
        now[r] = std::max(w.row_max[r], hn::GetLane(hn::MaxOfLanes(d, largest)));
      }
      // What the sums so far shrink by where the maximum grew; nothing is there yet where it was hidden.
      vectorise<T>(rows, [&](auto dr, int64_t r) HWY_ATTR {
        const auto before = hn::LoadU(dr, w.row_max + r);
        const auto ratio = exp_of(dr, hn::Sub(before, hn::LoadU(dr, now + r)));
        hn::StoreU(hn::IfThenZeroElse(hn::Eq(before, hn::Set(dr, kHidden)), ratio), dr, shrink + r);
      });
      for (int64_t r = 0; r < rows; ++r) {
        T* s = w.s + r * kCols;
        const int64_t width = tile.width[r];
        if (now[r] == kHidden) {
          clear(s, width);
          continue;
        }
        const auto shift = hn::Set(d, now[r]);
        auto sum = hn::Zero(d);
        auto dot = hn::Zero(d);
        for (int64_t c = 0; c < width; c += lanes) {
          const auto x = hn::LoadU(d, s + c);
          const auto e = exp_of(d, hn::Sub(x, shift));
          sum = hn::Add(sum, e);
          if (p.statistics != nullptr)
            dot = hn::MulAdd(e, hn::Max(x, hn::Set(d, std::numeric_limits<T>::lowest())), dot);
          hn::StoreU(e, d, s + c);
        }
        w.row_max[r] = now[r];
        w.row_sum[r] = w.row_sum[r] * shrink[r] + hn::GetLane(hn::SumOfLanes(d, sum));
        if (p.statistics != nullptr) w.row_dot[r] = w.row_dot[r] * shrink[r] + hn::GetLane(hn::SumOfLanes(d, dot));
        if (!first && shrink[r] != T(1)) {
          const auto shrink_row = [&](T* row, int64_t n) HWY_ATTR {
            for (int64_t c = 0; c < n; c += lanes) {
              hn::StoreU(hn::Mul(hn::LoadU(d, row + c), hn::Set(d, shrink[r])), d, row + c);
            }
          };
          shrink_row(w.o + r * w.dv_pad, w.dv_pad);
          if (p.relative_values != nullptr) {
            shrink_row(w.rel_p + r * w.relative_pad + range_.begin, range_.end - range_.begin);
          }
        }
        add_by_relative_row(t0, r, j0, tile);
      }
      small_gemm<T>(rows, w.dv_pad, tile.columns, {w.s, kCols, 1}, w.v + j0 * w.dv_pad, w.dv_pad, true, w.o, w.dv_pad,
                    [&](int64_t r, int64_t, int64_t&, int64_t& end, int64_t&) { end = std::min(end, tile.width[r]); });
      first = false;
    });
    if (p.relative_values != nullptr) {
      small_gemm<T>(rows, w.dv_pad, range_rows(), {w.rel_p + range_.begin, w.relative_pad, 1},
                    w.rel_v + range_.begin * w.dv_pad, w.dv_pad, true, w.o, w.dv_pad);
    }
  }

  /// w.rel_p += the probabilities of row r of a tile, by the row of the relative values that they weigh.
  void add_by_relative_row(int64_t t0, int64_t r, int64_t j0, const TileMask& tile) {
    if (p.relative_values == nullptr) return;
    const int64_t i = p.position(t0 + r);
    const T* s = w.s + r * kCols;
    T* sums = w.rel_p + r * w.relative_pad;
    for (int64_t c = 0; c < std::min(tile.width[r], tile.columns); ++c) sums[p.relative_row(i, j0 + c)] += s[c];
  }

  void backward_rows(int64_t t0, int64_t rows, const T* lse, T* d_bias) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    clear(w.dq, rows * w.dk_pad);
    relative_scores(t0, rows);
    if (p.relative_keys != nullptr) clear_relative(rows, w.dqa);
    if (p.relative_values != nullptr) {
      clear_relative(rows, w.rel_p);
      relative_products(w.dy + t0 * w.dv_pad, w.dv_pad, rows, p.dv, w.rel_vt, w.dya);
    }
    for_tiles(t0, rows, [&](int64_t j0, const TileMask& tile) HWY_ATTR {
      scores(t0, rows, j0, tile);
      const auto by_width = [&](int64_t r, int64_t, int64_t&, int64_t&, int64_t& width) { width = tile.width[r]; };
      small_gemm<T>(rows, kCols, p.dv, {w.dy + t0 * w.dv_pad, w.dv_pad, 1}, w.vt + j0, w.keys_pad, false, w.ds, kCols,
                    by_width);
      const int64_t tile_width = AttentionScratch<T>::padded(tile.columns);
      for (int64_t r = 0; r < rows; ++r) {
        T* s = w.s + r * kCols;
        T* ds = w.ds + r * kCols;
        const int64_t width = tile.width[r];
        const int64_t i = p.position(t0 + r);
        if (p.relative_values != nullptr) {
          const T* dya = w.dya + r * w.relative_pad;
          for (int64_t c = 0; c < std::min(width, tile.columns); ++c) ds[c] += dya[p.relative_row(i, j0 + c)];
        }
        const auto shift = hn::Set(d, lse[t0 + r]);
        const auto delta = hn::Set(d, w.delta[t0 + r]);
        for (int64_t c = 0; c < width; c += lanes) {
          const auto e = exp_of(d, hn::Sub(hn::LoadU(d, s + c), shift));
          hn::StoreU(e, d, s + c);
          hn::StoreU(hn::Mul(e, hn::Sub(hn::LoadU(d, ds + c), delta)), d, ds + c);
        }
        for (int64_t c = width; c < tile_width; ++c) s[c] = ds[c] = 0;
        add_by_relative_row(t0, r, j0, tile);
        if (d_bias != nullptr && p.positions != nullptr) {
          for (int64_t c = 0; c < std::min(width, tile.columns); ++c) d_bias[p.offset_column(i, j0 + c)] += ds[c];
        } else if (d_bias != nullptr) {
          T* out = d_bias + p.offset_column(i, j0);
          for (int64_t c = 0; c < width; c += lanes) {
            hn::StoreU(hn::Add(hn::LoadU(d, out + c), hn::LoadU(d, ds + c)), d, out + c);
          }
        }
        if (p.distance != nullptr) distance_bias_backward(p, h_, i, j0, std::min(width, tile.columns), ds);
        if (p.relative_keys != nullptr) {
          T* dqa = w.dqa + r * w.relative_pad;
          for (int64_t c = 0; c < std::min(width, tile.columns); ++c) {
            dqa[p.relative_row(i, j0 + c)] += ds[c];
          }
        }
      }
      // Key j gets nothing from the rows of the tile before the first that sees it.
      const auto rows_that_see = [&](int64_t c, int64_t, int64_t& begin, int64_t& end, int64_t&) {
        if (tile.global > c) return;
        while (begin < end && tile.end[begin] <= c) ++begin;
      };
      small_gemm<T>(tile.columns, w.dv_pad, rows, {w.s, 1, kCols}, w.dy + t0 * w.dv_pad, w.dv_pad, true,
                    w.dv + j0 * w.dv_pad, w.dv_pad, rows_that_see);
      small_gemm<T>(tile.columns, w.dk_pad, rows, {w.ds, 1, kCols}, w.q + t0 * w.dk_pad, w.dk_pad, true,
                    w.dk + j0 * w.dk_pad, w.dk_pad, rows_that_see);
      small_gemm<T>(rows, w.dk_pad, tile.columns, {w.ds, kCols, 1}, w.k + j0 * w.dk_pad, w.dk_pad, true, w.dq, w.dk_pad,
                    [&](int64_t r, int64_t, int64_t&, int64_t& end, int64_t&) { end = std::min(end, tile.width[r]); });
    });
    if (p.relative_keys != nullptr) {
      const int64_t at = (p.relative_head(h_) * p.relative_rows() + range_.begin) * w.dk_pad;
      small_gemm<T>(rows, w.dk_pad, range_rows(), {w.dqa + range_.begin, w.relative_pad, 1}, w.rel + at, w.dk_pad, true,
                    w.dq, w.dk_pad);
      small_gemm<T>(range_rows(), w.dk_pad, rows, {w.dqa + range_.begin, 1, w.relative_pad}, w.q + t0 * w.dk_pad,
                    w.dk_pad, true, w.d_rel + at, w.dk_pad);
    }
    if (p.relative_values != nullptr) {
      small_gemm<T>(range_rows(), w.dv_pad, rows, {w.rel_p + range_.begin, 1, w.relative_pad}, w.dy + t0 * w.dv_pad,
                    w.dv_pad, true, w.d_rel_v + range_.begin * w.dv_pad, w.dv_pad);
    }
  }

  const AttentionProblem<T>& p;
  const AttentionScratch<T>& w;
  int64_t h_ = 0;        ///< the head in hand
  KeyRange range_ = {};  ///< relative_range() of the queries in hand
};

template <class T>
void forward_all(const AttentionProblem<T>& p, const AttentionScratch<T>& w) {
  // Few queries read what is relative where it lies, too.
  enum class Relative : uint8_t { not_packed, finite, not_finite } relative = Relative::not_packed;
  const auto finite_relative = [&] {
    if (relative == Relative::not_packed) {
      relative = Head<T>(p, w).pack_relative(false) ? Relative::finite : Relative::not_finite;
    }
    return relative == Relative::finite;
  };
  for (int64_t b = 0; b < p.B; ++b) {
    const AttentionProblem<T> one = p.sequence(b);
    const int64_t unseeing = one.keys > 0 ? p.skipped_queries(b) : p.queries;
    clear_rows(p.y, b, p.H, 0, unseeing, p.dv);
    for (int64_t h = 0; h < p.H; ++h) {
      std::fill_n(p.lse + (b * p.H + h) * p.lse_stride, unseeing, std::numeric_limits<T>::infinity());
    }
    if (unseeing == p.queries) continue;
    Head<T> head(one, w);
    FewQueries<T> few(one, w);
    constexpr int64_t kHeads = FewQueries<T>::kHeads;
    for (int64_t g = 0; g < p.G; ++g) {
      const int64_t end = (g + 1) * (p.H / p.G);
      bool packed = false;
      bool finite = false;
      for (int64_t first = g * (p.H / p.G); first < end; first += kHeads) {
        const int64_t heads = std::min(kHeads, end - first);
        if (one.queries <= kFewQueries && few.forward(g, first, heads)) continue;
        if (!packed) finite = head.pack_keys(g, false) && finite_relative();
        packed = true;
        for (int64_t h = first; h < first + heads; ++h) head.forward(h, finite);
      }
    }
  }
}

template <class T>
void backward_all(const AttentionProblem<T>& p, const AttentionScratch<T>& w) {
  const bool finite_relative = Head<T>(p, w).pack_relative(true);
  for (int64_t b = 0; b < p.B; ++b) {
    const AttentionProblem<T> one = p.sequence(b);
    const bool seeing = one.keys > 0 && one.queries > 0;
    const int64_t begin = seeing ? p.keys_of(b).begin : p.keys;
    const int64_t end = seeing ? p.keys_of(b).end : p.keys;
    if (!p.add_dq) clear_rows(p.dq, b, p.H, 0, seeing ? p.skipped_queries(b) : p.queries, p.dk);
    if (!p.add_dk) {
      clear_rows(p.dk_out, b, p.G, 0, begin, p.dk);
      clear_rows(p.dk_out, b, p.G, end, p.keys, p.dk);
    }
    if (!p.add_dv) {
      clear_rows(p.dv_out, b, p.G, 0, begin, p.dv);
      clear_rows(p.dv_out, b, p.G, end, p.keys, p.dv);
    }
    if (!seeing) continue;
    Head<T> head(one, w);
    for (int64_t g = 0; g < p.G; ++g) {
      const bool finite = head.pack_keys(g, true) && finite_relative;
      clear(w.dk, w.keys_pad * w.dk_pad);
      clear(w.dv, w.keys_pad * w.dv_pad);
      for (int64_t h = g * (p.H / p.G); h < (g + 1) * (p.H / p.G); ++h) head.backward(h, finite);
      head.unpack_keys(g);
    }
  }
  Head<T>(p, w).unpack_relative();
}

constexpr auto& ForwardF32 = forward_all<float>;
constexpr auto& ForwardF64 = forward_all<double>;
constexpr auto& BackwardF32 = backward_all<float>;
constexpr auto& BackwardF64 = backward_all<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);

template <class T>
void forward(AttentionProblem<T>& p, const AttentionOptions& options, Tape& tape) {
  p.lse = tape.arena().allocate<T>(static_cast<std::size_t>(p.B * p.H * p.queries));
  p.statistics = options.statistics;
  const Arena::Mark mark = tape.arena().mark();
  for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64))(
      p, AttentionScratch<T>(tape.arena(), p, false));
  tape.arena().rewind(mark);
  p.statistics = nullptr;
}

/// Runs the kernel; the gradients of q, k and v are already open in p. Opens those of the rest.
template <class T>
void backward(AttentionProblem<T> p, const AttentionAdditions& additions, Tape& tape) {
  open_gradients(tape, additions, p);
  const Arena::Mark mark = tape.arena().mark();
  for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64))(
      p, AttentionScratch<T>(tape.arena(), p, true));
  tape.arena().rewind(mark);
}

Var attend(const AttentionExtents& e, const AttentionOperand& q, const AttentionOperand& k, const AttentionOperand& v,
           const AttentionOperand& y_layout, const Shape& y_shape, const AttentionOptions& options) {
  Tape& tape = *q.var.tape;
  check_same_dtype("attention: k", q.var, k.var);
  check_same_dtype("attention: v", q.var, v.var);
  check_attention_operands("attention", e, q.var, options);
  Tensor y = tape.allocate(y_shape, q.var.dtype());
  return dispatch(q.var.dtype(), [&]<class T>() {
    AttentionProblem<T> p = attention_problem<T>(e, options);
    p.q = q.value<T>();
    p.k = k.value<T>();
    p.v = v.value<T>();
    p.y = y_layout.view<T>(y.data<T>());
    forward(p, options, tape);
    const AttentionAdditions additions(e, options);
    return tape.record("attention", y, additions.with(q.var, k.var, v.var), [=](Tape& t, Var result) {
      AttentionProblem<T> back = p;
      back.dy = y_layout.view<const T>(t.gradient<T>(result));
      open_gradients(t, q, k, v, back);
      backward(back, additions, t);
    });
  });
}

}  // namespace

Var attention(Var q, Var k, Var v, const AttentionOptions& options) {
  require(q.shape().rank() == 4 && k.shape().rank() == 4 && v.shape().rank() == 4,
          "attention: q, k and v are [batch, heads, positions, columns]");
  const AttentionExtents e{q.shape()[0], q.shape()[1], k.shape()[1], q.shape()[2],
                           k.shape()[2], q.shape()[3], v.shape()[3]};
  check_shape("attention: k", k.shape(), {e.B, e.G, e.keys, e.dk});
  check_shape("attention: v", v.shape(), {e.B, e.G, e.keys, e.dv});
  const auto separate = [](Var x, int64_t heads, int64_t rows, int64_t d) {
    return AttentionOperand{x, 0, heads * rows * d, rows * d, d, x ? x.value().elements() : 0};
  };
  return attend(e, separate(q, e.H, e.queries, e.dk), separate(k, e.G, e.keys, e.dk), separate(v, e.G, e.keys, e.dv),
                separate({}, e.H, e.queries, e.dv), {e.B, e.H, e.queries, e.dv}, options);
}

Var attention(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  const AttentionExtents e = attention_extents("attention", q, k, &v);
  const int64_t columns = e.H * e.dv;
  return attend(e, attention_operand(q), attention_operand(k), attention_operand(v),
                AttentionOperand{{}, 0, e.queries * columns, e.dv, columns}, {e.B, e.queries, columns}, options);
}

Var attention_packed(Var qkv, int64_t n_heads, int64_t n_kv_heads, const AttentionOptions& options) {
  require(qkv.shape().rank() == 3 && qkv.shape()[2] % (n_heads + 2 * n_kv_heads) == 0,
          "attention: a packed projection of shape {} for {} query and {} key/value heads", qkv.shape().to_string(),
          n_heads, n_kv_heads);
  const int64_t d = qkv.shape()[2] / (n_heads + 2 * n_kv_heads);
  return attention(Heads{qkv, 0, n_heads, d}, Heads{qkv, n_heads * d, n_kv_heads, d},
                   Heads{qkv, (n_heads + n_kv_heads) * d, n_kv_heads, d}, options);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
