#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/activation.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include <numbers>

#include "framework/ops/activation.h"
#include "framework/ops/checks.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class D>
using VectorOf = hn::Vec<D>;

/// f(x) and f'(x); what a caller does not use costs nothing after inlining.
template <class D>
struct Point {
  VectorOf<D> value;
  VectorOf<D> slope;
};

// The exponential sees arguments at or below 0 only: it can neither overflow nor leave the range of the vector version.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1);
  const auto e = exp_of(d, hn::Neg(hn::Abs(x)));
  const auto larger = hn::Div(one, hn::Add(one, e));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, larger), larger);
}

struct Relu {
  template <class D, class V>
  static HWY_INLINE Point<D> at(D d, V x) {
    // Not Max(x, 0), which would turn a NaN into 0.
    const auto negative = hn::Le(x, hn::Zero(d));
    return {hn::IfThenZeroElse(negative, x), hn::IfThenZeroElse(negative, hn::Set(d, 1))};
  }
};

struct Gelu {
  template <class D, class V>
  static HWY_INLINE Point<D> at(D d, V x) {
    using T = hn::TFromD<D>;
    const auto gauss = exp_of(d, hn::Mul(hn::Mul(x, x), hn::Set(d, T(-0.5))));
    V phi;
    if constexpr (sizeof(T) == 8) {
      phi = lane_by_lane(d, x, [](T v) { return T(0.5) * std::erfc(v * -std::numbers::sqrt2_v<T> / 2); });
    } else {
      // Coefficients of 7.1.26 for erf(|x| / sqrt 2), halved.
      const auto t = hn::Div(hn::Set(d, T(1)),
                             hn::MulAdd(hn::Abs(x), hn::Set(d, T(0.3275911 / std::numbers::sqrt2)), hn::Set(d, T(1))));
      auto p = hn::Set(d, T(0.5 * 1.061405429));
      p = hn::MulAdd(p, t, hn::Set(d, T(0.5 * -1.453152027)));
      p = hn::MulAdd(p, t, hn::Set(d, T(0.5 * 1.421413741)));
      p = hn::MulAdd(p, t, hn::Set(d, T(0.5 * -0.284496736)));
      p = hn::MulAdd(p, t, hn::Set(d, T(0.5 * 0.254829592)));
      const auto tail = hn::Mul(hn::Mul(p, t), gauss);
      phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, T(1)), tail));
    }
    const auto density = hn::Mul(gauss, hn::Set(d, T(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi)));
    return {hn::Mul(x, phi), hn::MulAdd(x, density, phi)};
  }
};

struct GeluTanh {
  template <class D, class V>
  static HWY_INLINE Point<D> at(D d, V x) {
    using T = hn::TFromD<D>;
    // (1 + tanh u) / 2 is the sigmoid of 2u.
    constexpr double k = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    constexpr double kCubic = 0.044715 * k;
    const auto square = hn::Mul(x, x);
    const auto twice_u = hn::Mul(x, hn::MulAdd(square, hn::Set(d, T(kCubic)), hn::Set(d, T(k))));
    const auto s = sigmoid(d, twice_u);
    const auto du = hn::MulAdd(square, hn::Set(d, T(3 * kCubic)), hn::Set(d, T(k)));
    const auto value = hn::Mul(x, s);
    return {value, hn::MulAdd(hn::Mul(value, hn::Sub(hn::Set(d, T(1)), s)), du, s)};
  }
};

struct Silu {
  template <class D, class V>
  static HWY_INLINE Point<D> at(D d, V x) {
    const auto s = sigmoid(d, x);
    const auto value = hn::Mul(x, s);
    return {value, hn::MulAdd(value, hn::Sub(hn::Set(d, 1), s), s)};
  }
};

/// Calls body.template operator()<F>() with the function that `kind` names.
template <class Body>
HWY_INLINE void with_function(ActivationFunction kind, Body&& body) {
  switch (kind) {
    case ActivationFunction::relu:
      return body.template operator()<Relu>();
    case ActivationFunction::gelu:
      return body.template operator()<Gelu>();
    case ActivationFunction::gelu_tanh:
      return body.template operator()<GeluTanh>();
    case ActivationFunction::silu:
      return body.template operator()<Silu>();
  }
}

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
