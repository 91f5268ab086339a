#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/norm.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include <algorithm>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/norm.h"
#include "framework/ops/norm_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

// Rows are taken in blocks that L1 holds, and each step is done for all of a block, some rows side by side, before the
// next: the sums across a vector and the roots of one row take their time while those of others are made. What becomes
// of a row does not depend on the rows beside it. The block after it is on its way from the outer caches meanwhile.

constexpr int64_t kMostRows = 64;

/// Rows of n elements that make 8 KiB, so that a block of x, dy and dx is in L1 at once.
template <class T>
int64_t rows_of_a_block(int64_t n) {
  constexpr int64_t kElements = (8 << 10) / sizeof(T);
  return std::clamp<int64_t>(kElements / n / 4 * 4, 4, kMostRows);
}

/// f<kRows>(row) for every kRows rows of [begin, end), and f<1>(row) for each that is left.
template <int kRows, class F>
HWY_INLINE void side_by_side(int64_t begin, int64_t end, F&& f) {
  for (; begin + kRows <= end; begin += kRows) f.template operator()<kRows>(begin);
  for (; begin < end; ++begin) f.template operator()<1>(begin);
}

/// sums[r] = the sum of kRows rows of n elements, where add(d, s, r, i) adds element i of row r to s; two partial sums
/// a row.
template <class T, int kRows, class Add>
HWY_INLINE void sum_rows(int64_t n, T* sums, Add&& add) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  hn::VFromD<decltype(d)> even[kRows];
  hn::VFromD<decltype(d)> odd[kRows];
  hn::VFromD<decltype(one)> rest[kRows];
  for (int r = 0; r < kRows; ++r) {
    even[r] = odd[r] = hn::Zero(d);
    rest[r] = hn::Zero(one);
  }
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    for (int r = 0; r < kRows; ++r) {
      even[r] = add(d, even[r], r, i);
      odd[r] = add(d, odd[r], r, i + step);
    }
  }
  for (; i + step <= n; i += step) {
    for (int r = 0; r < kRows; ++r) even[r] = add(d, even[r], r, i);
  }
  for (; i < n; ++i) {
    for (int r = 0; r < kRows; ++r) rest[r] = add(one, rest[r], r, i);
  }
  for (int r = 0; r < kRows; ++r) {
    sums[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r], odd[r]))) + hn::GetLane(rest[r]);
  }
}

/// What is the same for all elements of a few rows, out of the memory that results are written to.
template <class T, int kRows>
struct RowScalars {
  T at[kRows];

  explicit RowScalars(const T* from) {
    for (int r = 0; r < kRows; ++r) at[r] = from != nullptr ? from[r] : T(0);
  }
};

template <bool kCentred, class D, class T>
HWY_INLINE hn::VFromD<D> centred(D d, const T* x, T mean) {
  return kCentred ? hn::Sub(hn::LoadU(d, x), hn::Set(d, mean)) : hn::LoadU(d, x);
}

/// In place of the reciprocal root of some rows, their sum of squared deviations from the mean.
template <class T, bool kCentred, int kRows>
HWY_INLINE void sum_squares(const NormRows<T>& in, int64_t row) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  const RowScalars<T, kRows> mean(kCentred ? in.mean + row : nullptr);
  sum_rows<T, kRows>(n, in.reciprocal_root + row, [=](auto d, auto s, int r, int64_t i) HWY_ATTR {
    const auto c = centred<kCentred>(d, x + r * n + i, mean.at[r]);
    return hn::MulAdd(c, c, s);
  });
}

template <class T, bool kCentred, int kRows>
HWY_INLINE void normalize(const NormRows<T>& in, int64_t row, T* y) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  const T* weight = in.weight;
  const T* bias = in.bias;
  T* out = y + row * n;
  const int64_t ahead = rows_of_a_block<T>(n) * n;
  const RowScalars<T, kRows> mean(kCentred ? in.mean + row : nullptr);
  const RowScalars<T, kRows> factor(in.reciprocal_root + row);
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, weight + i);
    const auto b = bias != nullptr ? hn::LoadU(d, bias + i) : hn::Zero(d);
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(out + r * n + i + ahead, 1);
      const auto c = centred<kCentred>(d, x + r * n + i, mean.at[r]);
      hn::StoreU(hn::MulAdd(hn::Mul(c, hn::Set(d, factor.at[r])), w, b), d, out + r * n + i);
    }
  });
}

template <class T, bool kCentred>
HWY_INLINE void forward_rows(const NormRows<T>& in, T eps, T* y) {
  const int64_t n = in.n;
  const int64_t block = rows_of_a_block<T>(n);
  for (int64_t begin = 0; begin < in.rows; begin += block) {
    const int64_t end = std::min(in.rows, begin + block);
    if constexpr (kCentred) {
      // One after the other, as they come from the outer caches.
      side_by_side<1>(begin, end, [&]<int kRows>(int64_t row) HWY_ATTR {
        const T* x = in.x + row * n;
        sum_rows<T, kRows>(n, in.mean + row, [=](auto d, auto s, int r, int64_t i) HWY_ATTR {
          __builtin_prefetch(x + r * n + i + block * n);
          return hn::Add(s, hn::LoadU(d, x + r * n + i));
        });
      });
      T* means = in.mean + begin;
      vectorise<T>(end - begin, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Div(hn::LoadU(d, means + i), hn::Set(d, static_cast<T>(n))), d, means + i);
      });
    }
    side_by_side<4>(begin, end, [&]<int kRows>(int64_t row) HWY_ATTR { sum_squares<T, kCentred, kRows>(in, row); });
    T* roots = in.reciprocal_root + begin;
    vectorise<T>(end - begin, [=](auto d, int64_t i) HWY_ATTR {
      const auto variance = hn::Div(hn::LoadU(d, roots + i), hn::Set(d, static_cast<T>(n)));
      hn::StoreU(hn::Div(hn::Set(d, T(1)), hn::Sqrt(hn::Add(variance, hn::Set(d, eps)))), d, roots + i);
    });
    side_by_side<4>(begin, end, [&]<int kRows>(int64_t row) HWY_ATTR { normalize<T, kCentred, kRows>(in, row, y); });
  }
}

template <class T>
void forward(const NormRows<T>& in, T eps, T* y) {
  if (in.mean != nullptr) {
    forward_rows<T, true>(in, eps, y);
  } else {
    forward_rows<T, false>(in, eps, y);
  }
}

/// For some rows: the sums over a row of g and of g xhat. Adds to dweight and dbias, each of which may be null.
template <class T, bool kCentred, int kRows>
HWY_INLINE void sum_gradients(const NormRows<T>& in, int64_t row, const T* dy, T* dweight, T* dbias, T* sum_g,
                              T* sum_gx) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  const T* weight = in.weight;
  dy += row * n;
  const RowScalars<T, kRows> mean(kCentred ? in.mean + row : nullptr);
  const RowScalars<T, kRows> factor(in.reciprocal_root + row);
  const int64_t ahead = rows_of_a_block<T>(n) * n;
  const auto add = [=](auto d, int64_t i, auto* g_sums, auto* gx_sums) HWY_ATTR {
    const auto w = hn::LoadU(d, weight + i);
    auto of_weight = hn::Zero(d);
    auto of_bias = hn::Zero(d);
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(x + r * n + i + ahead);
      __builtin_prefetch(dy + r * n + i + ahead);
      const auto of_y = hn::LoadU(d, dy + r * n + i);
      const auto normalized = hn::Mul(centred<kCentred>(d, x + r * n + i, mean.at[r]), hn::Set(d, factor.at[r]));
      of_weight = r == 0 ? hn::Mul(of_y, normalized) : hn::MulAdd(of_y, normalized, of_weight);
      of_bias = r == 0 ? of_y : hn::Add(of_bias, of_y);
      const auto g = hn::Mul(of_y, w);
      if (kCentred) g_sums[r] = hn::Add(g_sums[r], g);
      gx_sums[r] = hn::MulAdd(g, normalized, gx_sums[r]);
    }
    if (dweight != nullptr) hn::StoreU(hn::Add(hn::LoadU(d, dweight + i), of_weight), d, dweight + i);
    if (dbias != nullptr) hn::StoreU(hn::Add(hn::LoadU(d, dbias + i), of_bias), d, dbias + i);
  };
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  hn::VFromD<decltype(d)> g[kRows];
  hn::VFromD<decltype(d)> gx[kRows];
  hn::VFromD<decltype(one)> g_rest[kRows];
  hn::VFromD<decltype(one)> gx_rest[kRows];
  for (int r = 0; r < kRows; ++r) {
    g[r] = gx[r] = hn::Zero(d);
    g_rest[r] = gx_rest[r] = hn::Zero(one);
  }
  int64_t i = 0;
  for (; i + step <= n; i += step) add(d, i, g, gx);
  for (; i < n; ++i) add(one, i, g_rest, gx_rest);
  for (int r = 0; r < kRows; ++r) {
    sum_g[r] = hn::GetLane(hn::SumOfLanes(d, g[r])) + hn::GetLane(g_rest[r]);
    sum_gx[r] = hn::GetLane(hn::SumOfLanes(d, gx[r])) + hn::GetLane(gx_rest[r]);
  }
}

/// dx of some rows, (g - mean(g) - xhat mean(g xhat)) factor, as g factor + (slope (x - mean) + shift).
template <class T, bool kCentred, int kRows>
HWY_INLINE void add_dx(const NormRows<T>& in, int64_t row, const T* dy, const T* slopes, const T* shifts,
                       GradientSink<T> dx) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  const T* weight = in.weight;
  dy += row * n;
  T* out = dx.data + row * n;
  const bool accumulate = dx.accumulate;
  const int64_t ahead = rows_of_a_block<T>(n) * n;
  const RowScalars<T, kRows> mean(kCentred ? in.mean + row : nullptr);
  const RowScalars<T, kRows> factor(in.reciprocal_root + row);
  const RowScalars<T, kRows> slope(slopes);
  const RowScalars<T, kRows> shift(shifts);
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, weight + i);
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(out + r * n + i + ahead, 1);
      const auto g = hn::Mul(hn::LoadU(d, dy + r * n + i), w);
      const auto c = centred<kCentred>(d, x + r * n + i, mean.at[r]);
      const auto line = hn::MulAdd(c, hn::Set(d, slope.at[r]), hn::Set(d, shift.at[r]));
      store_or_add(d, accumulate, hn::MulAdd(g, hn::Set(d, factor.at[r]), line), out + r * n + i);
    }
  });
}

template <class T, bool kCentred>
HWY_INLINE void backward_rows(const NormRows<T>& in, const T* dy, GradientSink<T> dx, T* dweight, T* dbias) {
  const int64_t block = rows_of_a_block<T>(in.n);
  HWY_ALIGN T sum_g[kMostRows];
  HWY_ALIGN T sum_gx[kMostRows];
  for (int64_t begin = 0; begin < in.rows; begin += block) {
    const int64_t end = std::min(in.rows, begin + block);
    side_by_side<2>(begin, end, [&]<int kRows>(int64_t row) HWY_ATTR {
      sum_gradients<T, kCentred, kRows>(in, row, dy, dweight, dbias, sum_g + (row - begin), sum_gx + (row - begin));
    });
    if (!dx) continue;
    const T* roots = in.reciprocal_root + begin;
    vectorise<T>(end - begin, [&](auto d, int64_t i) HWY_ATTR {
      const auto root = hn::LoadU(d, roots + i);
      const auto share = hn::Div(hn::Neg(root), hn::Set(d, static_cast<T>(in.n)));
      hn::StoreU(hn::Mul(hn::LoadU(d, sum_g + i), share), d, sum_g + i);
      hn::StoreU(hn::Mul(hn::LoadU(d, sum_gx + i), hn::Mul(share, root)), d, sum_gx + i);
    });
    side_by_side<2>(begin, end, [&]<int kRows>(int64_t row) HWY_ATTR {
      add_dx<T, kCentred, kRows>(in, row, dy, sum_gx + (row - begin), sum_g + (row - begin), dx);
    });
  }
}

template <class T>
void backward(const NormRows<T>& in, const T* dy, GradientSink<T> dx, T* dweight, T* dbias) {
  if (in.mean != nullptr) {
    backward_rows<T, true>(in, dy, dx, dweight, dbias);
  } else {
    backward_rows<T, false>(in, dy, dx, dweight, dbias);
  }
}

constexpr auto& ForwardF32 = forward<float>;
constexpr auto& ForwardF64 = forward<double>;
constexpr auto& BackwardF32 = backward<float>;
constexpr auto& BackwardF64 = backward<double>;

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

Var norm(const char* op, Var x, Var weight, Var bias, double eps, bool centred) {
  Tape& tape = *x.tape;
  check_has_last_axis(op, x);
  check_same_dtype(op, x, weight);
  check_same_dtype(op, x, bias);
  require(eps >= 0, "{}: eps is {}; it must not be negative", op, eps);
  const int64_t n = weight.shape()[-1];
  const int64_t rows = x.value().elements() / n;
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64));
    const NormRows<T> in{.rows = rows,
                         .n = n,
                         .x = x.value().data<T>(),
                         .weight = weight.value().data<T>(),
                         .bias = bias ? bias.value().data<T>() : nullptr,
                         .mean = centred ? tape.arena().allocate<T>(static_cast<std::size_t>(rows)) : nullptr,
                         .reciprocal_root = tape.arena().allocate<T>(static_cast<std::size_t>(rows))};
    forward(in, static_cast<T>(eps), y.data<T>());
    return tape.record(op, y, {x, weight, bias}, [=](Tape& t, Var result) {
      T* dweight = t.gradient_accumulator<T>(weight);
      T* dbias = t.gradient_accumulator<T>(bias);
      backward(in, t.gradient<T>(result), t.gradient_sink<T>(x), dweight, dbias);
    });
  });
}

}  // namespace

Var layer_norm(Var x, Var weight, Var bias, double eps) {
  check_shape("layer_norm: weight", weight.shape(), {x.shape()[-1]});
  if (bias) check_shape("layer_norm: bias", bias.shape(), {x.shape()[-1]});
  return norm("layer_norm", x, weight, bias, eps, true);
}

Var rms_norm(Var x, Var weight, double eps) {
  check_shape("rms_norm: weight", weight.shape(), {-1});
  const int64_t n = weight.shape()[-1];
  require(n >= 1 && x.shape().rank() >= 1 && x.shape()[-1] % n == 0,
          "rms_norm: a weight of {} elements does not divide the last axis of a shape {}", n, x.shape().to_string());
  return norm("rms_norm", x, weight, {}, eps, false);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
