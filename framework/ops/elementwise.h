#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// y = a + b, of one shape. Backward: da += dy, db += dy.
Var add(Var a, Var b);

/// y = s a + b, of one shape: a residual stream scaled up (DeepNorm, Wang et al. 2022). Backward: da += s dy, db += dy.
Var scale_add(Var a, double s, Var b);

/// y = s x. Backward: dx += s dy.
Var scale(Var x, double s);

}  // namespace ropewalk
