// Sum of squares in double, compiled once for every instruction set (Google Highway).

#if defined(ROPEWALK_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SQUARES_INL_H_
#undef ROPEWALK_SQUARES_INL_H_
#else
#define ROPEWALK_SQUARES_INL_H_
#endif

#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> load_as_double(D d, const float* x) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), x));
}
template <class D>
HWY_INLINE hn::Vec<D> load_as_double(D d, const double* x) {
  return hn::LoadU(d, x);
}

/// Squared L2 norm of n elements. Floats are widened before they are squared: no float has a square that overflows or
/// vanishes in double.
template <class T>
HWY_INLINE double sum_of_squares(const T* x, int64_t n) {
  return sum_of<double>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto value = load_as_double(d, x + i);
    return hn::Mul(value, value);
  });
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_SQUARES_INL_H_
