// The activation functions and their slopes, compiled once for every instruction set (Google Highway).

#if defined(ROPEWALK_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_ACTIVATION_INL_H_
#undef ROPEWALK_ACTIVATION_INL_H_
#else
#define ROPEWALK_ACTIVATION_INL_H_
#endif

#include <numbers>

#include "framework/ops/activation.h"
#include "framework/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {

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

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROPEWALK_ACTIVATION_INL_H_
