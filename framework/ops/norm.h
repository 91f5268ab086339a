#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// Layer normalization (Ba et al. 2016) over the last axis of x [.., D], with weight [D] and bias [D] or none:
///   y = xhat * weight + bias,   xhat = (x - mean) / sqrt(variance + eps),   variance = mean of (x - mean)^2
///
/// Backward, with g = dy * weight inside the means, so that it holds for any weight:
///   dx += (g - mean(g) - xhat * mean(g * xhat)) / sqrt(variance + eps)
///   dweight += sum over rows of dy * xhat        dbias += sum over rows of dy
Var layer_norm(Var x, Var weight, Var bias, double eps);

/// Root-mean-square normalization (Zhang & Sennrich 2019) of rows of D elements, D being the length of weight [D]:
///   y = xhat * weight,   xhat = x / sqrt(mean of x^2 + eps)
/// The last axis of x is D, or a multiple of it: then every D neighbours are a row of their own, as when queries
/// [.., heads * D] are normalized head by head under one weight.
///
/// Backward, with g = dy * weight:
///   dx += (g - xhat * mean(g * xhat)) / sqrt(mean of x^2 + eps)        dweight += sum over rows of dy * xhat
Var rms_norm(Var x, Var weight, double eps);

}  // namespace ropewalk
