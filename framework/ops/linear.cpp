#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/linear.cpp"
#include <hwy/foreach_target.h>

#include "framework/gemm-inl.h"

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/linear.h"
#include "framework/ops/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// y = residual_scale residual + x W^T + bias; bias and residual may be absent.
template <class T>
void forward(const T* x, const T* weight, const T* bias, const T* residual, T residual_scale, int64_t rows, int64_t in,
             int64_t out, T* y) {
  const auto run = [&](auto finish) HWY_ATTR { linear_product(rows, in, out, x, weight, y, finish, kNothing); };
  const auto with_bias = [=](auto d, int64_t j, auto v)
                             HWY_ATTR { return bias != nullptr ? hn::Add(v, hn::LoadU(d, bias + j)) : v; };
  if (residual == nullptr) {
    run([=](auto d, int64_t i, int64_t j, auto v) HWY_ATTR { hn::StoreU(with_bias(d, j, v), d, y + i * out + j); });
  } else {
    run([=](auto d, int64_t i, int64_t j, auto v) HWY_ATTR {
      const auto r = hn::LoadU(d, residual + i * out + j);
      hn::StoreU(hn::MulAdd(hn::Set(d, residual_scale), r, with_bias(d, j, v)), d, y + i * out + j);
    });
  }
}

// Four rows at a time: the column sums stay in registers or L1 while dy streams past once.
template <class T>
void add_column_sums(const T* dy, int64_t rows, int64_t n, bool accumulate, T* sums) {
  if (!accumulate) vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Zero(d), d, sums + i); });
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* p = dy + r * n;
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      const auto s01 = hn::Add(hn::LoadU(d, p + i), hn::LoadU(d, p + n + i));
      const auto s23 = hn::Add(hn::LoadU(d, p + 2 * n + i), hn::LoadU(d, p + 3 * n + i));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(s01, s23)), d, sums + i);
    });
  }
  for (; r < rows; ++r) {
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, dy + r * n + i)), d, sums + i);
    });
  }
}

constexpr auto& ForwardF32 = forward<float>;
constexpr auto& ForwardF64 = forward<double>;
constexpr auto& AddColumnSumsF32 = add_column_sums<float>;
constexpr auto& AddColumnSumsF64 = add_column_sums<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(AddColumnSumsF32);
HWY_EXPORT(AddColumnSumsF64);

Var linear_or_add(const char* op, Var x, Var weight, Var bias, Var residual, double residual_scale) {
  Tape& tape = *x.tape;
  check_linear(op, x, weight, bias);
  const int64_t in = x.shape()[-1];
  const int64_t out = weight.shape()[0];
  const int64_t rows = x.shape().rows();
  const Tensor y = tape.allocate(x.shape().with_last(out), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    forward(x.value().data<T>(), weight.value().data<T>(), bias ? bias.value().data<T>() : nullptr,
            residual ? residual.value().data<T>() : nullptr, static_cast<T>(residual_scale), rows, in, out,
            y.data<T>());
    return tape.record(op, y, {x, weight, bias, residual}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      linear_backward(t, dy, x, weight, bias);
      if (!residual || (residual_scale == 1.0 && t.hand_over_gradient(result, residual))) return;
      const GradientSink<T> dr = t.gradient_sink<T>(residual);
      if (dr) scale_into(rows * out, static_cast<T>(residual_scale), dy, dr);
    });
  });
}

}  // namespace

void check_linear(std::string_view op, Var x, Var weight, Var bias) {
  check_has_last_axis(op, x);
  // The names are put together where they are needed: a steady step allocates nothing.
  const Shape& w = weight.shape();
  if (w.rank() != 2 || w[1] != x.shape()[-1]) check_shape(fmt::format("{}: weight", op), w, {-1, x.shape()[-1]});
  if (bias && !(bias.shape() == Shape{w[0]})) check_shape(fmt::format("{}: bias", op), bias.shape(), {w[0]});
  check_same_dtype(op, x, weight);
  check_same_dtype(op, x, bias);
}

template <class T>
void linear_backward(Tape& tape, const T* dy, Var x, Var weight, Var bias) {
  const int64_t out = weight.shape()[0];
  const int64_t in = weight.shape()[1];
  const int64_t rows = x.shape().rows();
  if (const GradientSink<T> dx = tape.gradient_sink<T>(x)) {
    gemm(Transpose::no, Transpose::no, rows, in, out, dy, out, weight.value().data<T>(), in, dx.accumulate, dx.data,
         in);
  }
  if (const GradientSink<T> dweight = tape.gradient_sink<T>(weight)) {
    gemm(Transpose::yes, Transpose::no, out, in, rows, dy, out, x.value().data<T>(), in, dweight.accumulate,
         dweight.data, in);
  }
  if (const GradientSink<T> dbias = tape.gradient_sink<T>(bias)) {
    auto& add_column_sums = for_type<T>(HWY_DYNAMIC_DISPATCH(AddColumnSumsF32), HWY_DYNAMIC_DISPATCH(AddColumnSumsF64));
    add_column_sums(dy, rows, out, dbias.accumulate, dbias.data);
  }
}
template decltype(linear_backward<float>) linear_backward<float>;
template decltype(linear_backward<double>) linear_backward<double>;

Var linear(Var x, Var weight, Var bias) {
  return linear_or_add("linear", x, weight, bias, {}, 1.0);
}

Var linear_add(Var x, Var weight, Var bias, Var residual, double residual_scale) {
  check_linear("linear_add", x, weight, bias);
  const Shape product = x.shape().with_last(weight.shape()[0]);
  if (!(residual.shape() == product)) {
    fail("linear_add: a residual of shape {} for a product of shape {}", residual.shape().to_string(),
         product.to_string());
  }
  check_same_dtype("linear_add", x, residual);
  return linear_or_add("linear_add", x, weight, bias, residual, residual_scale);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
