#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// y [.., out] = x [.., in] W^T + b, with W [out, in] and b [out] or none.
///
/// Backward, with dy the gradient of y and rows taken together:
///   dx += dy W        dW += dy^T x        db += sum over rows of dy
Var linear(Var x, Var weight, Var bias = {});

}  // namespace ropewalk
