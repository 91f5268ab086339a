#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/activation.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/activation-inl.h"

#include "framework/for_type.h"
#include "framework/ops/activation.h"
#include "framework/ops/checks.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void forward(ActivationFunction kind, const T* x, int64_t n, T* y) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR { hn::StoreU(F::at(d, hn::LoadU(d, x + i)).value, d, y + i); });
  });
}

template <class T>
void backward(ActivationFunction kind, const T* dy, const T* x, int64_t n, GradientSink<T> dx) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
      const auto slope = F::at(d, hn::LoadU(d, x + i)).slope;
      store_or_add(d, dx.accumulate, hn::Mul(hn::LoadU(d, dy + i), slope), dx.data + i);
    });
  });
}

template <class T>
void gated_forward(ActivationFunction kind, const T* gate, const T* up, int64_t n, T* y) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(F::at(d, hn::LoadU(d, gate + i)).value, hn::LoadU(d, up + i)), d, y + i);
    });
  });
}

template <class T>
void gated_backward(ActivationFunction kind, const T* dy, const T* gate, const T* up, int64_t n, GradientSink<T> dgate,
                    GradientSink<T> dup) {
  with_function(kind, [=]<class F>() HWY_ATTR {
    vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
      const auto g = hn::LoadU(d, dy + i);
      const auto point = F::at(d, hn::LoadU(d, gate + i));
      const auto of_gate = hn::Mul(hn::Mul(g, hn::LoadU(d, up + i)), point.slope);
      if (dgate) store_or_add(d, dgate.accumulate, of_gate, dgate.data + i);
      if (dup) store_or_add(d, dup.accumulate, hn::Mul(g, point.value), dup.data + i);
    });
  });
}

constexpr auto& ForwardF32 = forward<float>;
constexpr auto& ForwardF64 = forward<double>;
constexpr auto& BackwardF32 = backward<float>;
constexpr auto& BackwardF64 = backward<double>;
constexpr auto& GatedForwardF32 = gated_forward<float>;
constexpr auto& GatedForwardF64 = gated_forward<double>;
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
HWY_EXPORT(GatedForwardF32);
HWY_EXPORT(GatedForwardF64);
HWY_EXPORT(GatedBackwardF32);
HWY_EXPORT(GatedBackwardF64);

}  // namespace

Var activation(Var x, ActivationFunction kind) {
  Tape& tape = *x.tape;
  const int64_t n = x.value().elements();
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64));
    forward(kind, x.value().data<T>(), n, y.data<T>());
    return tape.record("activation", y, {x}, [=](Tape& t, Var result) {
      const GradientSink<T> dx = t.gradient_sink<T>(x);
      if (dx) backward(kind, t.gradient<T>(result), x.value().data<T>(), n, dx);
    });
  });
}

Var gated_activation(Var gate, Var up, ActivationFunction kind) {
  require(kind == ActivationFunction::silu || kind == ActivationFunction::gelu,
          "gated_activation: function {} has no gated form; take silu (SwiGLU) or gelu (GEGLU)",
          static_cast<int>(kind));
  check_same_shape("gated_activation", gate, up);
  Tape& tape = *gate.tape;
  const int64_t n = gate.value().elements();
  const Tensor y = tape.allocate(gate.shape(), gate.dtype());
  return dispatch(gate.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(GatedForwardF32), HWY_DYNAMIC_DISPATCH(GatedForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(GatedBackwardF32), HWY_DYNAMIC_DISPATCH(GatedBackwardF64));
    forward(kind, gate.value().data<T>(), up.value().data<T>(), n, y.data<T>());
    return tape.record("gated_activation", y, {gate, up}, [=](Tape& t, Var result) {
      // In this order: where both are the same Var, the kernel stores the first and adds the second.
      const GradientSink<T> dgate = t.gradient_sink<T>(gate);
      const GradientSink<T> dup = t.gradient_sink<T>(up);
      backward(kind, t.gradient<T>(result), gate.value().data<T>(), up.value().data<T>(), n, dgate, dup);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
