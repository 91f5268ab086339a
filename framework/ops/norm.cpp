#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/norm.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/norm.h"
#include "framework/ops/norm_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T, bool kCentred>
HWY_INLINE void normalize_row(const NormRows<T>& in, int64_t row, T eps, T* y) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  T mean = 0;
  if constexpr (kCentred) {
    mean = sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) / static_cast<T>(n);
    in.mean[row] = mean;
  }
  const T variance = sum_of<T>(n,
                               [&](auto d, int64_t i) HWY_ATTR {
                                 const auto c =
                                     kCentred ? hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)) : hn::LoadU(d, x + i);
                                 return hn::Mul(c, c);
                               }) /
                     static_cast<T>(n);
  const T factor = T(1) / std::sqrt(variance + eps);
  in.reciprocal_root[row] = factor;
  const T* weight = in.weight;
  const T* bias = in.bias;
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto c = kCentred ? hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)) : hn::LoadU(d, x + i);
    const auto scaled = hn::Mul(hn::Mul(c, hn::Set(d, factor)), hn::LoadU(d, weight + i));
    hn::StoreU(bias != nullptr ? hn::Add(scaled, hn::LoadU(d, bias + i)) : scaled, d, y + i);
  });
}

template <class T>
void forward(const NormRows<T>& in, T eps, T* y) {
  for (int64_t r = 0; r < in.rows; ++r) {
    if (in.mean != nullptr) {
      normalize_row<T, true>(in, r, eps, y + r * in.n);
    } else {
      normalize_row<T, false>(in, r, eps, y + r * in.n);
    }
  }
}

// dweight and dbias are added to: they are the sums over rows.
template <class T, bool kCentred>
HWY_INLINE void normalize_row_backward(const NormRows<T>& in, int64_t row, const T* dy, GradientSink<T> dx, T* dweight,
                                       T* dbias) {
  const int64_t n = in.n;
  const T* x = in.x + row * n;
  const T* weight = in.weight;
  const T mean = kCentred ? in.mean[row] : T(0);
  const T factor = in.reciprocal_root[row];
  const auto normalized = [&](auto d, int64_t i) HWY_ATTR {
    const auto c = kCentred ? hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)) : hn::LoadU(d, x + i);
    return hn::Mul(c, hn::Set(d, factor));
  };
  if (dweight != nullptr) {
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, dy + i), normalized(d, i), hn::LoadU(d, dweight + i)), d, dweight + i);
    });
  }
  if (dbias != nullptr) {
    vectorise<T>(n, [&](auto d, int64_t i)
                        HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, dy + i), hn::LoadU(d, dbias + i)), d, dbias + i); });
  }
  if (!dx) return;
  T mean_g = 0;
  if constexpr (kCentred) {
    mean_g = sum_of<T>(n, [&](auto d, int64_t i)
                              HWY_ATTR { return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)); }) /
             static_cast<T>(n);
  }
  const T mean_gx =
      sum_of<T>(n,
                [&](auto d, int64_t i) HWY_ATTR {
                  return hn::Mul(hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)), normalized(d, i));
                }) /
      static_cast<T>(n);
  T* out = dx.data + row * n;
  const bool accumulate = dx.accumulate;
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    auto g = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i));
    if constexpr (kCentred) g = hn::Sub(g, hn::Set(d, mean_g));
    const auto v = hn::Mul(hn::NegMulAdd(normalized(d, i), hn::Set(d, mean_gx), g), hn::Set(d, factor));
    store_or_add(d, accumulate, v, out + i);
  });
}

template <class T>
void backward(const NormRows<T>& in, const T* dy, GradientSink<T> dx, T* dweight, T* dbias) {
  for (int64_t r = 0; r < in.rows; ++r) {
    if (in.mean != nullptr) {
      normalize_row_backward<T, true>(in, r, dy + r * in.n, dx, dweight, dbias);
    } else {
      normalize_row_backward<T, false>(in, r, dy + r * in.n, dx, dweight, dbias);
    }
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
