// Reductions over one row of numbers, compiled once for every instruction set (Google Highway).

#if defined(ROPEWALK_ROW_REDUCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_ROW_REDUCTIONS_INL_H_
#undef ROPEWALK_ROW_REDUCTIONS_INL_H_
#else
#define ROPEWALK_ROW_REDUCTIONS_INL_H_
#endif

#include <algorithm>

#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// Greatest of n >= 1 elements; where some are NaN the result is any of the elements.
template <class T>
HWY_INLINE T max_of(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  T greatest = x[0];
  int64_t i = 0;
  if (n >= step) {
    auto m0 = hn::LoadU(d, x);
    auto m1 = m0;
    for (i = step; i + 2 * step <= n; i += 2 * step) {
      m0 = hn::Max(m0, hn::LoadU(d, x + i));
      m1 = hn::Max(m1, hn::LoadU(d, x + i + step));
    }
    for (; i + step <= n; i += step) m0 = hn::Max(m0, hn::LoadU(d, x + i));
    greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
  }
  for (; i < n; ++i) greatest = std::max(greatest, x[i]);
  return greatest;
}

/// exp(x) for x <= 0; a NaN stays one, where the vector exponential would return 0.
template <class D, class V>
HWY_INLINE V exp_keeping_nan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, exp_of(d, x));
}

/// Sum of exp(x - shift), with shift the maximum. Runs of 1024 are added in T and their sums in double, so that the
/// error does not grow with the length of a vocabulary.
template <class T>
HWY_INLINE double sum_of_exp(const T* x, int64_t n, T shift) {
  constexpr int64_t kRun = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const T* run = x + begin;
    total += static_cast<double>(sum_of<T>(std::min(kRun, n - begin), [&](auto d, int64_t i) HWY_ATTR {
      return exp_keeping_nan(d, hn::Sub(hn::LoadU(d, run + i), hn::Set(d, shift)));
    }));
  }
  return total;
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_ROW_REDUCTIONS_INL_H_
