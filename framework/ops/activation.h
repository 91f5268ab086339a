#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// An elementwise nonlinearity:
///   relu       max(x, 0); its derivative at 0 is 0
///   gelu       x Phi(x), Phi the normal distribution function (Hendrycks & Gimpel 2016)
///   gelu_tanh  x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the approximation of the same paper
///   silu       x / (1 + exp(-x))
enum class ActivationFunction : uint8_t { relu, gelu, gelu_tanh, silu };

/// y = f(x), of the shape of x. Backward: dx += dy f'(x).
///
/// In f32 Phi comes from one exponential (Abramowitz & Stegun 7.1.26, absolute error below 1e-7), in f64 from erf.
Var activation(Var x, ActivationFunction kind);

/// y = f(gate) * up, of one shape: SwiGLU with silu, GEGLU with gelu (Shazeer 2020); no other function is accepted.
///
/// Backward: dgate += dy * up * f'(gate)        dup += dy * f(gate)
Var gated_activation(Var gate, Var up, ActivationFunction kind);

}  // namespace ropewalk
