// Attention of few queries to many keys, as decoding asks for it: keys and values are read once, where they lie, and
// only those that are visible. Included by attention.cpp for every instruction set.

#if defined(ROPEWALK_ATTENTION_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_ATTENTION_FEW_INL_H_
#undef ROPEWALK_ATTENTION_FEW_INL_H_
#else
#define ROPEWALK_ATTENTION_FEW_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/ops/attention_distance-inl.h"
#include "framework/ops/attention_problem.h"
#include "framework/ops/rotate_rows.h"
#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// Up to so many queries a sequence cost less than packing its keys and values for tiles.
inline constexpr int64_t kFewQueries = 4;

/// s[j] = q . k_j for keys `stride` apart. Each sum is taken in an order that depends on n alone.
template <class T>
HWY_INLINE void dots(const T* q, const T* k, int64_t stride, int64_t keys, int64_t n, T* s) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / lanes * lanes;
  const auto rest = [&](const T* key, T sum) {
    for (int64_t c = whole; c < n; ++c) sum += q[c] * key[c];
    return sum;
  };
  int64_t j = 0;
  for (; j + 4 <= keys; j += 4) {
    const T* k0 = k + j * stride;
    const T* k1 = k0 + stride;
    const T* k2 = k1 + stride;
    const T* k3 = k2 + stride;
    auto s0 = hn::Zero(d);
    auto s1 = s0;
    auto s2 = s0;
    auto s3 = s0;
    for (int64_t c = 0; c < whole; c += lanes) {
      const auto x = hn::LoadU(d, q + c);
      s0 = hn::MulAdd(x, hn::LoadU(d, k0 + c), s0);
      s1 = hn::MulAdd(x, hn::LoadU(d, k1 + c), s1);
      s2 = hn::MulAdd(x, hn::LoadU(d, k2 + c), s2);
      s3 = hn::MulAdd(x, hn::LoadU(d, k3 + c), s3);
    }
    s[j] = rest(k0, hn::GetLane(hn::SumOfLanes(d, s0)));
    s[j + 1] = rest(k1, hn::GetLane(hn::SumOfLanes(d, s1)));
    s[j + 2] = rest(k2, hn::GetLane(hn::SumOfLanes(d, s2)));
    s[j + 3] = rest(k3, hn::GetLane(hn::SumOfLanes(d, s3)));
  }
  for (; j < keys; ++j) {
    const T* key = k + j * stride;
    auto sum = hn::Zero(d);
    for (int64_t c = 0; c < whole; c += lanes) sum = hn::MulAdd(hn::LoadU(d, q + c), hn::LoadU(d, key + c), sum);
    s[j] = rest(key, hn::GetLane(hn::SumOfLanes(d, sum)));
  }
}

/// y = shrink y + sum over j of p_j v_j, for values `stride` apart.
template <class T>
HWY_INLINE void add_weighted(const T* p, const T* v, int64_t stride, int64_t keys, int64_t n, T shrink, T* y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 4 * lanes <= n; c += 4 * lanes) {
    const auto factor = hn::Set(d, shrink);
    auto y0 = hn::Mul(factor, hn::LoadU(d, y + c));
    auto y1 = hn::Mul(factor, hn::LoadU(d, y + c + lanes));
    auto y2 = hn::Mul(factor, hn::LoadU(d, y + c + 2 * lanes));
    auto y3 = hn::Mul(factor, hn::LoadU(d, y + c + 3 * lanes));
    const T* from = v + c;
    for (int64_t j = 0; j < keys; ++j, from += stride) {
      const auto x = hn::Set(d, p[j]);
      y0 = hn::MulAdd(x, hn::LoadU(d, from), y0);
      y1 = hn::MulAdd(x, hn::LoadU(d, from + lanes), y1);
      y2 = hn::MulAdd(x, hn::LoadU(d, from + 2 * lanes), y2);
      y3 = hn::MulAdd(x, hn::LoadU(d, from + 3 * lanes), y3);
    }
    hn::StoreU(y0, d, y + c);
    hn::StoreU(y1, d, y + c + lanes);
    hn::StoreU(y2, d, y + c + 2 * lanes);
    hn::StoreU(y3, d, y + c + 3 * lanes);
  }
  vectorise<T>(n - c, [&](auto dv, int64_t i) HWY_ATTR {
    auto sum = hn::Mul(hn::Set(dv, shrink), hn::LoadU(dv, y + c + i));
    for (int64_t j = 0; j < keys; ++j) {
      sum = hn::MulAdd(hn::Set(dv, p[j]), hn::LoadU(dv, v + j * stride + c + i), sum);
    }
    hn::StoreU(sum, dv, y + c + i);
  });
}

/// The few queries of one sequence.
template <class T>
class FewQueries {
 public:
  static constexpr int64_t kHeads = AttentionScratch<T>::kRows;  ///< heads at a time

  FewQueries(const AttentionProblem<T>& problem, const AttentionScratch<T>& scratch) : p(problem), w(scratch) {}

  /// `heads` heads from `first` on, which share key/value head g. False where a score or a result is not finite: then
  /// the statistics know nothing of them, and all is to be done again by those who know what to make of it.
  bool forward(int64_t g, int64_t first, int64_t heads) {
    double entropy[kHeads] = {};
    T max_logit[kHeads];
    std::fill(max_logit, max_logit + heads, -std::numeric_limits<T>::infinity());
    for (int64_t t = 0; t < p.queries; ++t) {
      if (!one_query(g, first, heads, t)) return false;
      for (int64_t r = 0; r < heads; ++r) {
        add_relative_values(r, t);
        if (!write(first + r, r, t)) return false;
        if (p.statistics == nullptr || w.row_sum[r] == 0) continue;
        entropy[r] += static_cast<double>(lse(first + r)[t] - w.row_dot[r] * (T(1) / w.row_sum[r]));
        max_logit[r] = std::max(max_logit[r], w.row_max[r]);
      }
    }
    for (int64_t r = 0; r < heads && p.statistics != nullptr; ++r) {
      double& greatest = p.statistics->max_logit[first + r];
      p.statistics->entropy[first + r] += entropy[r];
      greatest = std::max(greatest, static_cast<double>(max_logit[r]));
    }
    return true;
  }

 private:
  static constexpr int64_t kCols = AttentionScratch<T>::kCols;  ///< keys at a time

  T* lse(int64_t h) const { return p.lse + h * p.lse_stride; }

  /// w.o, w.row_max, w.row_sum and w.row_dot of query t, a row a head; false where a score is not finite.
  bool one_query(int64_t g, int64_t first, int64_t heads, int64_t t) {
    const int64_t i = p.position(t);
    const KeyRange local = p.local_keys(i);
    const int64_t globals = global_keys(i);
    const KeyRange ranges[] = {{0, globals}, {std::max(local.begin, globals), local.end}};
    for (int64_t r = 0; r < heads; ++r) {
      std::fill(w.o + r * w.dv_pad, w.o + r * w.dv_pad + p.dv, T(0));
      w.row_max[r] = -std::numeric_limits<T>::infinity();
      w.row_sum[r] = 0;
      w.row_dot[r] = 0;
      T* q = w.q + r * w.dk_pad;
      const T* from = p.q.head(0, first + r) + t * p.q.row_stride;
      const T* u = p.query_bias != nullptr ? p.query_bias + (first + r) * p.dk : nullptr;
      for (int64_t c = 0; c < p.dk; ++c) q[c] = (u != nullptr ? from[c] + u[c] : from[c]) * p.scale;
      rotate_rows(p.rotary, RotarySide::queries, i, 1, w.dk_pad, false, q);
      const KeyRange rows = relative_rows(i);
      if (p.relative_keys != nullptr) {
        dots(q, p.relative_key(first + r, rows.begin), p.relative_heads * p.dk, rows.end - rows.begin, p.dk,
             w.qa + r * w.relative_pad + rows.begin);
      }
      if (p.relative_values != nullptr) {
        std::fill(w.rel_p + r * w.relative_pad + rows.begin, w.rel_p + r * w.relative_pad + rows.end, T(0));
      }
    }
    for (const KeyRange& range : ranges) {
      for (int64_t j = range.begin; j < range.end; j += kCols) {
        if (!tile(g, first, heads, i, j, std::min(kCols, range.end - j))) return false;
      }
    }
    return true;
  }

  /// Adds what keys [j0, j0 + n) give to the query at position i.
  bool tile(int64_t g, int64_t first, int64_t heads, int64_t i, int64_t j0, int64_t n) {
    const T* keys = p.k.head(0, g) + j0 * p.k.row_stride;
    int64_t stride = p.k.row_stride;
    if (p.rotary != nullptr) {
      for (int64_t j = 0; j < n; ++j) {
        std::copy_n(keys + j * stride, p.dk, w.k + j * w.dk_pad);
      }
      rotate_rows(p.rotary, RotarySide::keys, j0, n, w.dk_pad, false, w.k);
      keys = w.k;
      stride = w.dk_pad;
    }
    const T* values = p.v.head(0, g) + j0 * p.v.row_stride;
    for (int64_t r = 0; r < heads; ++r) {
      HWY_ALIGN T s[kCols];
      dots(w.q + r * w.dk_pad, keys, stride, n, p.dk, s);
      add_biases(first + r, r, i, j0, n, s);
      const T zero_if_finite =
          sum_of<T>(n, [&](auto d, int64_t c) HWY_ATTR { return hn::Mul(hn::LoadU(d, s + c), hn::Zero(d)); });
      if (zero_if_finite != T(0)) return false;
      const T shrink = exponentials(r, n, s);
      add_weighted(s, values, p.v.row_stride, n, p.dv, shrink, w.o + r * w.dv_pad);
      if (p.relative_values == nullptr) continue;
      const KeyRange rows = relative_rows(i);
      T* sums = w.rel_p + r * w.relative_pad;
      vectorise<T>(rows.end - rows.begin, [&](auto d, int64_t c) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::Set(d, shrink), hn::LoadU(d, sums + rows.begin + c)), d, sums + rows.begin + c);
      });
      for (int64_t c = 0; c < n; ++c) sums[p.relative_row(i, j0 + c)] += s[c];
    }
    return true;
  }

  void add_biases(int64_t h, int64_t r, int64_t i, int64_t j0, int64_t n, T* s) const {
    if (p.offset_bias != nullptr && p.positions != nullptr) {
      const T* bias = p.offset_bias + h * p.bias_stride;
      for (int64_t c = 0; c < n; ++c) s[c] += bias[p.offset_column(i, j0 + c)];
    } else if (p.offset_bias != nullptr) {
      const T* bias = p.offset_bias + h * p.bias_stride + p.offset_column(i, j0);
      vectorise<T>(n, [&](auto d, int64_t c)
                          HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, s + c), hn::LoadU(d, bias + c)), d, s + c); });
    }
    if (p.distance != nullptr) add_distance_bias(p, h, i, j0, n, s);
    if (p.relative_keys == nullptr) return;
    const T* qa = w.qa + r * w.relative_pad;
    for (int64_t c = 0; c < n; ++c) s[c] += qa[p.relative_row(i, j0 + c)];
  }

  /// Scores s [n] become exponentials under the greatest score so far of row r, whose sums take them in. Returns what
  /// the earlier ones shrink by.
  T exponentials(int64_t r, int64_t n, T* s) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    // What fills up the last vector has no weight.
    const int64_t width = (n + lanes - 1) / lanes * lanes;
    std::fill(s + n, s + width, -std::numeric_limits<T>::infinity());
    auto largest = hn::Set(d, w.row_max[r]);
    for (int64_t c = 0; c < width; c += lanes) largest = hn::Max(largest, hn::Load(d, s + c));
    const T now = hn::GetLane(hn::MaxOfLanes(d, largest));
    const auto shift = hn::Set(d, now);
    auto sum = hn::Zero(d);
    auto dot = hn::Zero(d);
    for (int64_t c = 0; c < width; c += lanes) {
      const auto x = hn::Load(d, s + c);
      const auto e = exp_of(d, hn::Sub(x, shift));
      sum = hn::Add(sum, e);
      if (p.statistics != nullptr) dot = hn::MulAdd(e, hn::Max(x, hn::Set(d, std::numeric_limits<T>::lowest())), dot);
      hn::Store(e, d, s + c);
    }
    const T shrink = w.row_max[r] == now ? T(1) : std::exp(w.row_max[r] - now);
    w.row_max[r] = now;
    w.row_sum[r] = w.row_sum[r] * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
    w.row_dot[r] = w.row_dot[r] * shrink + hn::GetLane(hn::SumOfLanes(d, dot));
    return shrink;
  }

  /// Row r as the result of query t of head h; false where it is not finite.
  bool write(int64_t h, int64_t r, int64_t t) {
    T* y = p.y.head(0, h) + t * p.y.row_stride;
    const T sum = w.row_sum[r];
    if (sum == 0) {
      std::fill(y, y + p.dv, T(0));
      lse(h)[t] = std::numeric_limits<T>::infinity();
      return true;
    }
    const T inverse = T(1) / sum;
    const T* o = w.o + r * w.dv_pad;
    vectorise<T>(p.dv, [&](auto d, int64_t c)
                           HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, o + c), hn::Set(d, inverse)), d, y + c); });
    lse(h)[t] = w.row_max[r] + std::log(sum);
    const T zero_if_finite =
        sum_of<T>(p.dv, [&](auto d, int64_t c) HWY_ATTR { return hn::Mul(hn::LoadU(d, y + c), hn::Zero(d)); });
    return zero_if_finite == T(0);
  }

  /// Global tokens that the query at position i sees.
  int64_t global_keys(int64_t i) const { return p.mask.causal ? std::min(p.global_keys(), i + 1) : p.global_keys(); }

  /// Rows of the relative keys and values from those of the first key that the query at position i sees to the last's.
  KeyRange relative_rows(int64_t i) const {
    if (p.relative_keys == nullptr && p.relative_values == nullptr) return {};
    const KeyRange local = p.local_keys(i);
    const int64_t globals = global_keys(i);
    return {p.relative_row(i, globals > 0 ? 0 : local.begin), p.relative_row(i, std::max(local.end, globals) - 1) + 1};
  }

  /// Adds the relative values to the sums of row r, each times the probabilities of its keys.
  void add_relative_values(int64_t r, int64_t t) {
    if (p.relative_values == nullptr) return;
    const KeyRange rows = relative_rows(p.position(t));
    add_weighted(w.rel_p + r * w.relative_pad + rows.begin, p.relative_values + rows.begin * p.dv, p.dv,
                 rows.end - rows.begin, p.dv, T(1), w.o + r * w.dv_pad);
  }

  const AttentionProblem<T>& p;
  const AttentionScratch<T>& w;
};

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_ATTENTION_FEW_INL_H_
