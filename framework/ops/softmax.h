#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// y = exp(x - max) / sum of exp(x - max) over the last axis of x [.., D], D >= 1. A NaN anywhere in a row makes the
/// whole row NaN.
///
/// Backward: dx += y (dy - sum over the row of dy y), exact to rounding in nearly one-hot rows too.
Var softmax(Var x);

}  // namespace ropewalk
