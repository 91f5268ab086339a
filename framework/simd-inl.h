// Vector helpers, compiled once for every instruction set (Google Highway). Included by the .cpp of an op between its
// own `#include <hwy/foreach_target.h>` and its kernels.

#if defined(ROPEWALK_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_INL_H_
#undef ROPEWALK_SIMD_INL_H_
#else
#define ROPEWALK_SIMD_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls f(d, i) for i = 0, step, 2 step, ... with a full vector tag d, then lane by lane with a tag of one lane, so
/// that nothing beyond n is touched. Mark f with HWY_ATTR.
template <class T, class F>
HWY_INLINE void vectorise(int64_t n, F&& f) {
  const hn::ScalableTag<T> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= n; i += step) f(d, i);
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) f(one, i);
}

/// Sum over i in [0, n) of term(d, i), in an order that depends on the vector length only.
template <class T, class F>
HWY_INLINE T sum_of(int64_t n, F&& term) {
  const hn::ScalableTag<T> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d);
  auto s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    s0 = hn::Add(s0, term(d, i));
    s1 = hn::Add(s1, term(d, i + step));
  }
  for (; i + step <= n; i += step) s0 = hn::Add(s0, term(d, i));
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) total += hn::GetLane(term(one, i));
  return total;
}

/// y[i] = x[i], or y[i] += x[i].
template <class D, class V>
HWY_INLINE void store_or_add(D d, bool accumulate, V v, hn::TFromD<D>* y) {
  hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, y), v) : v, d, y);
}

/// exp(x) for x up to 80, to about one unit in the last place; what becomes of a NaN is left open. In f32 by the
/// reduction and the polynomial of Moshier's Cephes library (expf), and 0 below -87.33, near the least normal number.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return hn::Exp(d, x);
  } else {
    const hn::Rebind<int32_t, D> di;
    // A number so great that its last bit counts ones rounds what is added to it, and the biased exponent stands in its
    // last bits: no conversion, which would be checked for overflow.
    const auto rounder = hn::Set(d, 12582912.0F + 127.0F);
    const auto rounded = hn::MulAdd(x, hn::Set(d, 1.44269504089F), rounder);
    const auto n = hn::Sub(rounded, rounder);
    // ln 2 in two parts: n times the first is exact.
    auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
    r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
    const auto square = hn::Mul(r, r);
    // Estrin's order: three short chains instead of a long one.
    const auto p45 = hn::MulAdd(hn::Set(d, 1.9875691500e-4F), r, hn::Set(d, 1.3981999507e-3F));
    const auto p23 = hn::MulAdd(hn::Set(d, 8.3334519073e-3F), r, hn::Set(d, 4.1665795894e-2F));
    const auto p01 = hn::MulAdd(hn::Set(d, 1.6666665459e-1F), r, hn::Set(d, 5.0000001201e-1F));
    const auto p = hn::MulAdd(hn::MulAdd(p45, square, p23), square, p01);
    const auto mantissa = hn::Add(hn::MulAdd(p, square, r), hn::Set(d, 1.0F));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, rounded));
    const auto y = hn::Mul(mantissa, hn::BitCast(d, exponent));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33F)), y);
  }
}

#if HWY_TARGET != HWY_SCALAR
/// to[r * ldt + c] = from[c * ldf + r] for a square of one 128-bit vector a side.
template <class T>
HWY_INLINE void transpose_square(const T* from, int64_t ldf, T* to, int64_t ldt) {
  const hn::CappedTag<T, 16 / sizeof(T)> d;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + ldf);
  if constexpr (sizeof(T) == 8) {
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + ldt);
  } else {
    const auto r2 = hn::LoadU(d, from + 2 * ldf);
    const auto r3 = hn::LoadU(d, from + 3 * ldf);
    const auto low01 = hn::InterleaveLower(d, r0, r1);
    const auto low23 = hn::InterleaveLower(d, r2, r3);
    const auto high01 = hn::InterleaveUpper(d, r0, r1);
    const auto high23 = hn::InterleaveUpper(d, r2, r3);
    hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, to);
    hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, to + ldt);
    hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, to + 2 * ldt);
    hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, to + 3 * ldt);
  }
}
#endif

/// Applies a scalar function to each lane, for functions that have no vector form in double.
template <class D, class V, class F>
HWY_INLINE V lane_by_lane(D d, V x, F f) {
  HWY_ALIGN hn::TFromD<D> lanes[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(x, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_SIMD_INL_H_
