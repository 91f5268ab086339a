#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/linear_activation.cpp"
#include <hwy/foreach_target.h>

#include "framework/gemm-inl.h"
#include "framework/ops/activation-inl.h"

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/linear.h"
#include "framework/ops/linear_activation.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// u = x W^T + b, and y = f(u); or, with a gate [rows, out], y = f(gate) u.
template <class T>
void forward(ActivationFunction kind, const T* x, const T* weight, const T* bias, const T* gate, int64_t rows,
             int64_t in, int64_t out, T* u, T* y) {
  const auto store = [=](auto d, int64_t i, int64_t j, auto v) HWY_ATTR {
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + j));
    hn::StoreU(v, d, u + i * out + j);
  };
  // Not in the store: unrolled for each vector of a tile, the functions would fill the instruction cache.
  const auto apply = [=](int64_t i0, int64_t n_rows, int64_t j0, int64_t columns) HWY_ATTR {
    with_function(kind, [=]<class F>() HWY_ATTR {
      for (int64_t i = i0; i < i0 + n_rows; ++i) {
        const int64_t at = i * out + j0;
        vectorise<T>(columns, [=](auto d, int64_t j) HWY_ATTR {
          const auto v = hn::LoadU(d, u + at + j);
          if (gate == nullptr) {
            hn::StoreU(F::at(d, v).value, d, y + at + j);
          } else {
            hn::StoreU(hn::Mul(F::at(d, hn::LoadU(d, gate + at + j)).value, v), d, y + at + j);
          }
        });
      }
    });
  };
  linear_product(rows, in, out, x, weight, u, store, apply);
}

/// du = dy f'(u); the two may be the same memory.
template <class T>
void backward(ActivationFunction kind, const T* dy, const T* u, int64_t n, T* du) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), F::at(d, hn::LoadU(d, u + i)).slope), d, du + i);
    });
  });
}

/// dgate = dy up f'(gate) and dup = dy f(gate); dup may be the memory of dy.
template <class T>
void gated_backward(ActivationFunction kind, const T* dy, const T* gate, const T* up, int64_t n, T* dgate, T* dup) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
      const auto g = hn::LoadU(d, dy + i);
      const auto point = F::at(d, hn::LoadU(d, gate + i));
      hn::StoreU(hn::Mul(hn::Mul(g, hn::LoadU(d, up + i)), point.slope), d, dgate + i);
      hn::StoreU(hn::Mul(g, point.value), d, dup + i);
    });
  });
}

constexpr auto& ForwardF32 = forward<float>;
constexpr auto& ForwardF64 = forward<double>;
constexpr auto& BackwardF32 = backward<float>;
constexpr auto& BackwardF64 = backward<double>;
constexpr auto& GatedBackwardF32 = gated_backward<float>;
constexpr auto& GatedBackwardF64 = gated_backward<double>;

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
HWY_EXPORT(GatedBackwardF32);
HWY_EXPORT(GatedBackwardF64);

template <class T>
const T* data_or_null(Var v) {
  return v ? v.value().data<T>() : nullptr;
}

}  // namespace

Var linear_activation(Var x, Var weight, Var bias, ActivationFunction kind) {
  Tape& tape = *x.tape;
  check_linear("linear_activation", x, weight, bias);
  const int64_t in = x.shape()[-1];
  const int64_t out = weight.shape()[0];
  const int64_t rows = x.shape().rows();
  const Tensor y = tape.allocate(x.shape().with_last(out), x.dtype());
  const Tensor u = tape.allocate(y.shape, x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64));
    forward(kind, x.value().data<T>(), weight.value().data<T>(), data_or_null<T>(bias), nullptr, rows, in, out,
            u.data<T>(), y.data<T>());
    const T* kept = u.data<T>();
    return tape.record("linear_activation", y, {x, weight, bias}, [=](Tape& t, Var result) {
      T* du = t.take_gradient<T>(result);
      backward(kind, du, kept, rows * out, du);
      linear_backward(t, static_cast<const T*>(du), x, weight, bias);
    });
  });
}

Var gated_linear(Var x, Var gate_weight, Var gate_bias, Var up_weight, Var up_bias, ActivationFunction kind) {
  require(kind == ActivationFunction::silu || kind == ActivationFunction::gelu,
          "gated_linear: the gate is silu (SwiGLU) or gelu (GEGLU)");
  Tape& tape = *x.tape;
  check_linear("gated_linear: gate", x, gate_weight, gate_bias);
  check_linear("gated_linear: up", x, up_weight, up_bias);
  check_shape("gated_linear: up_weight", up_weight.shape(), {gate_weight.shape()[0], gate_weight.shape()[1]});
  const int64_t in = x.shape()[-1];
  const int64_t out = up_weight.shape()[0];
  const int64_t rows = x.shape().rows();
  const Var gate = linear(x, gate_weight, gate_bias);
  const Tensor y = tape.allocate(x.shape().with_last(out), x.dtype());
  const Tensor up = tape.allocate(y.shape, x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(GatedBackwardF32), HWY_DYNAMIC_DISPATCH(GatedBackwardF64));
    forward(kind, x.value().data<T>(), up_weight.value().data<T>(), data_or_null<T>(up_bias), gate.value().data<T>(),
            rows, in, out, up.data<T>(), y.data<T>());
    const T* kept = up.data<T>();
    return tape.record("gated_linear", y, {gate, x, up_weight, up_bias}, [=](Tape& t, Var result) {
      T* dup = t.take_gradient<T>(result);
      // The gate has no other use: its gradient is written here for the first time, or is not wanted.
      T* dgate = t.gradient_sink<T>(gate).data;
      if (dgate == nullptr) dgate = t.arena().allocate<T>(static_cast<std::size_t>(rows * out));
      backward(kind, dup, gate.value().data<T>(), kept, rows * out, dgate, dup);
      linear_backward(t, static_cast<const T*>(dup), x, up_weight, up_bias);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
