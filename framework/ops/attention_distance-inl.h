// The bias of attention that depends on the position of the query beside the offset (see DistanceBias), a row of a tile
// at a time. Included by attention.cpp for every instruction set.

#if defined(ROPEWALK_ATTENTION_DISTANCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_ATTENTION_DISTANCE_INL_H_
#undef ROPEWALK_ATTENTION_DISTANCE_INL_H_
#else
#define ROPEWALK_ATTENTION_DISTANCE_INL_H_
#endif

#include <algorithm>

#include "framework/ops/attention_problem.h"
#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// The distances of keys [j0, j0 + n) from the query at position i: where they lie, or in `gathered` [n] where the keys
/// do not stand side by side.
template <class T>
HWY_INLINE const T* distances(const AttentionProblem<T>& p, int64_t i, int64_t j0, int64_t n, T* gathered) {
  if (p.positions == nullptr) return p.distance + p.offset_column(i, j0);
  for (int64_t c = 0; c < n; ++c) gathered[c] = p.distance[p.offset_column(i, j0 + c)];
  return gathered;
}

/// f(begin, end, line) for each run of keys that fall on one line. Distances fall up to the query's own position and
/// grow from there on, so that a run ends where halving finds its knot.
template <class T, class F>
HWY_INLINE void for_lines(const AttentionProblem<T>& p, int64_t i, int64_t j0, int64_t n, const T* distance, F&& f) {
  const T normalizer = p.normalizer[p.place(i)];
  const int64_t turn = std::clamp<int64_t>(i + 1 - j0, 0, n);
  for (int64_t begin = 0; begin < n;) {
    const int64_t line = p.line_at(distance[begin] * normalizer);
    const bool falling = begin < turn;
    const T* end = std::partition_point(distance + begin + 1, distance + (falling ? turn : n), [&](T d) {
      return falling ? line == 0 || d * normalizer >= p.line_knots[line - 1]
                     : line == p.n_lines - 1 || d * normalizer < p.line_knots[line];
    });
    f(begin, end - distance, line);
    begin = end - distance;
  }
}

/// s[c] += the bias of head h for the query at position i and key j0 + c, of n of them, a tile at most.
template <class T>
HWY_INLINE void add_distance_bias(const AttentionProblem<T>& p, int64_t h, int64_t i, int64_t j0, int64_t n, T* s) {
  HWY_ALIGN T gathered[AttentionScratch<T>::kCols];
  const T* distance = distances(p, i, j0, n, gathered);
  const T normalizer = p.normalizer[p.place(i)];
  for_lines(p, i, j0, n, distance, [&](int64_t begin, int64_t end, int64_t line) HWY_ATTR {
    const T slope = p.line_slopes[h * p.n_lines + line] * normalizer;
    const T at_zero = p.line_values[h * p.n_lines + line];
    vectorise<T>(end - begin, [&](auto d, int64_t c) HWY_ATTR {
      T* to = s + begin + c;
      const auto bias = hn::MulAdd(hn::Set(d, slope), hn::LoadU(d, distance + begin + c), hn::Set(d, at_zero));
      hn::StoreU(hn::Add(hn::LoadU(d, to), bias), d, to);
    });
  });
}

/// Passes on ds [n], the gradient of those scores.
template <class T>
HWY_INLINE void distance_bias_backward(const AttentionProblem<T>& p, int64_t h, int64_t i, int64_t j0, int64_t n,
                                       const T* ds) {
  HWY_ALIGN T gathered[AttentionScratch<T>::kCols];
  const T* distance = distances(p, i, j0, n, gathered);
  const T normalizer = p.normalizer[p.place(i)];
  for_lines(p, i, j0, n, distance, [&](int64_t begin, int64_t end, int64_t line) HWY_ATTR {
    const int64_t at = h * p.n_lines + line;
    const T by_distance = sum_of<T>(end - begin, [&](auto d, int64_t c) HWY_ATTR {
      return hn::Mul(hn::LoadU(d, ds + begin + c), hn::LoadU(d, distance + begin + c));
    });
    if (p.d_line_slopes != nullptr) {
      p.d_line_slopes[at] += normalizer * by_distance;
      p.d_line_values[at] +=
          sum_of<T>(end - begin, [&](auto d, int64_t c) HWY_ATTR { return hn::LoadU(d, ds + begin + c); });
    }
    if (p.d_normalizer != nullptr) p.d_normalizer[p.place(i)] += p.line_slopes[at] * by_distance;
    if (p.d_distance == nullptr) return;
    const T slope = p.line_slopes[at] * normalizer;
    if (p.positions != nullptr) {
      for (int64_t c = begin; c < end; ++c) p.d_distance[p.offset_column(i, j0 + c)] += slope * ds[c];
      return;
    }
    T* to = p.d_distance + p.offset_column(i, j0) + begin;
    vectorise<T>(end - begin, [&](auto d, int64_t c) HWY_ATTR {
      hn::StoreU(hn::MulAdd(hn::Set(d, slope), hn::LoadU(d, ds + begin + c), hn::LoadU(d, to + c)), d, to + c);
    });
  });
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_ATTENTION_DISTANCE_INL_H_
