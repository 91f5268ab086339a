// Products with rows that are picked by a list, as attention over selected keys makes them. Included by the .cpp of an
// op for every instruction set.

#if defined(ROPEWALK_SELECTED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SELECTED_ROWS_INL_H_
#undef ROPEWALK_SELECTED_ROWS_INL_H_
#else
#define ROPEWALK_SELECTED_ROWS_INL_H_
#endif

#include "framework/ops/packed_rows-inl.h"
#include "framework/ops/row_reductions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

/// Rows [.., width] of packed numbers, width a whole number of vectors.
template <class T>
struct PackedRows {
  T* data;
  int64_t width;
  T* row(int64_t r) const { return data + r * width; }
};

/// out[n] = or += x . rows[index[n]], for n in [0, count).
template <class T>
HWY_INLINE void dot_rows(const T* x, PackedRows<T> rows, const int32_t* index, int64_t count, bool add, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto put = [&](int64_t n, auto sum) HWY_ATTR {
    const T value = hn::GetLane(hn::SumOfLanes(d, sum));
    out[n] = add ? out[n] + value : value;
  };
  int64_t n = 0;
  for (; n + 4 <= count; n += 4) {
    auto s0 = hn::Zero(d);
    auto s1 = s0;
    auto s2 = s0;
    auto s3 = s0;
    const T* r0 = rows.row(index[n]);
    const T* r1 = rows.row(index[n + 1]);
    const T* r2 = rows.row(index[n + 2]);
    const T* r3 = rows.row(index[n + 3]);
    for (int64_t c = 0; c < rows.width; c += lanes) {
      const auto v = hn::LoadU(d, x + c);
      s0 = hn::MulAdd(v, hn::LoadU(d, r0 + c), s0);
      s1 = hn::MulAdd(v, hn::LoadU(d, r1 + c), s1);
      s2 = hn::MulAdd(v, hn::LoadU(d, r2 + c), s2);
      s3 = hn::MulAdd(v, hn::LoadU(d, r3 + c), s3);
    }
    put(n, s0);
    put(n + 1, s1);
    put(n + 2, s2);
    put(n + 3, s3);
  }
  for (; n < count; ++n) {
    auto sum = hn::Zero(d);
    const T* row = rows.row(index[n]);
    for (int64_t c = 0; c < rows.width; c += lanes) sum = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, row + c), sum);
    put(n, sum);
  }
}

/// out [rows.width] = or += sum over n of weights[n] rows[index[n]].
template <class T>
HWY_INLINE void sum_rows(const T* weights, PackedRows<T> rows, const int32_t* index, int64_t count, bool add, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + 2 * lanes <= rows.width; c += 2 * lanes) {
    auto s0 = add ? hn::LoadU(d, out + c) : hn::Zero(d);
    auto s1 = add ? hn::LoadU(d, out + c + lanes) : hn::Zero(d);
    for (int64_t n = 0; n < count; ++n) {
      const T* row = rows.row(index[n]) + c;
      const auto weight = hn::Set(d, weights[n]);
      s0 = hn::MulAdd(weight, hn::LoadU(d, row), s0);
      s1 = hn::MulAdd(weight, hn::LoadU(d, row + lanes), s1);
    }
    hn::StoreU(s0, d, out + c);
    hn::StoreU(s1, d, out + c + lanes);
  }
  for (; c < rows.width; c += lanes) {
    auto sum = add ? hn::LoadU(d, out + c) : hn::Zero(d);
    for (int64_t n = 0; n < count; ++n) {
      sum = hn::MulAdd(hn::Set(d, weights[n]), hn::LoadU(d, rows.row(index[n]) + c), sum);
    }
    hn::StoreU(sum, d, out + c);
  }
}

/// rows[index[n]] += weights[n] x, for n in [0, count).
template <class T>
HWY_INLINE void add_to_rows(const T* weights, const T* x, const int32_t* index, int64_t count, PackedRows<T> rows) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t n = 0; n < count; ++n) {
    T* row = rows.row(index[n]);
    const auto weight = hn::Set(d, weights[n]);
    for (int64_t c = 0; c < rows.width; c += lanes) {
      hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, x + c), hn::LoadU(d, row + c)), d, row + c);
    }
  }
}

/// Turns scores [n] into exp(score - greatest) and returns their sum; 0, and zeros, where all are -infinity. A NaN
/// makes the sum one.
template <class T>
HWY_INLINE T exponentiate(T* s, int64_t n, T& greatest) {
  greatest = n > 0 ? max_of(s, n) : -std::numeric_limits<T>::infinity();
  if (greatest == -std::numeric_limits<T>::infinity()) {
    // The vector maximum may have passed over a NaN.
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::isnan(s[i]) ? s[i] : T(0);
    std::fill(s, s + n, sum);
    return sum;
  }
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(exp_keeping_nan(d, hn::Sub(hn::LoadU(d, s + i), hn::Set(d, greatest))), d, s + i);
  });
  return sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, s + i); });
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_SELECTED_ROWS_INL_H_
