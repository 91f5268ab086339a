#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// y [.., out] = x [.., in] W^T + b, with W [out, in] and b [out] or none.
///
/// Backward, with dy the gradient of y and rows taken together:
///   dx += dy W        dW += dy^T x        db += sum over rows of dy
Var linear(Var x, Var weight, Var bias = {});

/// y = s r + x W^T + b, with r of the shape of y: the end of a residual branch as one op (s other than 1: DeepNorm,
/// Wang et al. 2022).
///
/// Backward: as linear(), and dr += s dy.
Var linear_add(Var x, Var weight, Var bias, Var residual, double residual_scale = 1.0);

/// What the backward of an op that contains x W^T + b owes x, W and b, given the gradient of the product. Absent Vars
/// get nothing.
template <class T>
void linear_backward(Tape& tape, const T* dy, Var x, Var weight, Var bias);

/// Throws unless x [.., in], W [out, in] and b [out] or none fit together and are of one dtype.
void check_linear(std::string_view op, Var x, Var weight, Var bias);

}  // namespace ropewalk
