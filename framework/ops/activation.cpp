#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/activation.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/activation-inl.h"

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

void ActivationForwardF32(ActivationFunction kind, const float* x, int64_t n, float* y) {
  forward(kind, x, n, y);
}
void ActivationForwardF64(ActivationFunction kind, const double* x, int64_t n, double* y) {
  forward(kind, x, n, y);
}
void ActivationBackwardF32(ActivationFunction kind, const float* dy, const float* x, int64_t n,
                           GradientSink<float> dx) {
  backward(kind, dy, x, n, dx);
}
void ActivationBackwardF64(ActivationFunction kind, const double* dy, const double* x, int64_t n,
                           GradientSink<double> dx) {
  backward(kind, dy, x, n, dx);
}
void GatedForwardF32(ActivationFunction kind, const float* gate, const float* up, int64_t n, float* y) {
  gated_forward(kind, gate, up, n, y);
}
void GatedForwardF64(ActivationFunction kind, const double* gate, const double* up, int64_t n, double* y) {
  gated_forward(kind, gate, up, n, y);
}
void GatedBackwardF32(ActivationFunction kind, const float* dy, const float* gate, const float* up, int64_t n,
                      GradientSink<float> dgate, GradientSink<float> dup) {
  gated_backward(kind, dy, gate, up, n, dgate, dup);
}
void GatedBackwardF64(ActivationFunction kind, const double* dy, const double* gate, const double* up, int64_t n,
                      GradientSink<double> dgate, GradientSink<double> dup) {
  gated_backward(kind, dy, gate, up, n, dgate, dup);
}

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(ActivationForwardF32);
HWY_EXPORT(ActivationForwardF64);
HWY_EXPORT(ActivationBackwardF32);
HWY_EXPORT(ActivationBackwardF64);
HWY_EXPORT(GatedForwardF32);
HWY_EXPORT(GatedForwardF64);
HWY_EXPORT(GatedBackwardF32);
HWY_EXPORT(GatedBackwardF64);

void forward(ActivationFunction kind, const float* x, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(ActivationForwardF32)(kind, x, n, y);
}
void forward(ActivationFunction kind, const double* x, int64_t n, double* y) {
  HWY_DYNAMIC_DISPATCH(ActivationForwardF64)(kind, x, n, y);
}
void backward(ActivationFunction kind, const float* dy, const float* x, int64_t n, GradientSink<float> dx) {
  HWY_DYNAMIC_DISPATCH(ActivationBackwardF32)(kind, dy, x, n, dx);
}
void backward(ActivationFunction kind, const double* dy, const double* x, int64_t n, GradientSink<double> dx) {
  HWY_DYNAMIC_DISPATCH(ActivationBackwardF64)(kind, dy, x, n, dx);
}
void gated_forward(ActivationFunction kind, const float* gate, const float* up, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(GatedForwardF32)(kind, gate, up, n, y);
}
void gated_forward(ActivationFunction kind, const double* gate, const double* up, int64_t n, double* y) {
  HWY_DYNAMIC_DISPATCH(GatedForwardF64)(kind, gate, up, n, y);
}
void gated_backward(ActivationFunction kind, const float* dy, const float* gate, const float* up, int64_t n,
                    GradientSink<float> dgate, GradientSink<float> dup) {
  HWY_DYNAMIC_DISPATCH(GatedBackwardF32)(kind, dy, gate, up, n, dgate, dup);
}
void gated_backward(ActivationFunction kind, const double* dy, const double* gate, const double* up, int64_t n,
                    GradientSink<double> dgate, GradientSink<double> dup) {
  HWY_DYNAMIC_DISPATCH(GatedBackwardF64)(kind, dy, gate, up, n, dgate, dup);
}

}  // namespace

Var activation(Var x, ActivationFunction kind) {
  Tape& tape = *x.tape;
  const int64_t n = x.value().elements();
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
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
    gated_forward(kind, gate.value().data<T>(), up.value().data<T>(), n, y.data<T>());
    return tape.record("gated_activation", y, {gate, up}, [=](Tape& t, Var result) {
      // In this order: where both are the same Var, the kernel stores the first and adds the second.
      const GradientSink<T> dgate = t.gradient_sink<T>(gate);
      const GradientSink<T> dup = t.gradient_sink<T>(up);
      gated_backward(kind, t.gradient<T>(result), gate.value().data<T>(), up.value().data<T>(), n, dgate, dup);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
