#pragma once

#include "framework/ops/activation.h"

namespace ropewalk {

/// y [.., out] = f(x [.., in] W^T + b), with W [out, in] and b [out] or none: f is applied while the product is in
/// registers.
///
/// Backward, with u = x W^T + b kept and du = dy f'(u):
///   dx += du W        dW += du^T x        db += sum over rows of du
Var linear_activation(Var x, Var weight, Var bias, ActivationFunction kind);

/// y = f(x Wg^T + bg) * (x Wu^T + bu), all of one shape: SwiGLU with silu, GEGLU with gelu (Shazeer 2020); no other
/// function is accepted.
///
/// Backward, with both products kept: dgate = dy up f'(gate), dup = dy f(gate), then as linear() for each.
Var gated_linear(Var x, Var gate_weight, Var gate_bias, Var up_weight, Var up_bias, ActivationFunction kind);

}  // namespace ropewalk
