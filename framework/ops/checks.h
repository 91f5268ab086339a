#pragma once

#include <string_view>

#include "framework/tape.h"

namespace ropewalk {

/// Throws unless both operands of an op have the same number format; an absent `b` passes.
inline void check_same_dtype(std::string_view op, Var a, Var b) {
  if (!b) return;
  require(a.dtype() == b.dtype(), "{}: one operand is {}, another {}; an op computes in one number format", op,
          name_of(a.dtype()), name_of(b.dtype()));
}

/// Throws unless both operands of an op have the same shape and number format.
inline void check_same_shape(std::string_view op, Var a, Var b) {
  if (!(a.shape() == b.shape())) {
    fail("{}: operands of shapes {} and {}; they must agree, nothing is broadcast", op, a.shape().to_string(),
         b.shape().to_string());
  }
  check_same_dtype(op, a, b);
}

/// Throws where the last axis of x is empty or x has no axis.
inline void check_has_last_axis(std::string_view op, Var x) {
  if (x.shape().rank() < 1 || x.shape()[-1] < 1) {
    fail("{}: the last axis of a shape {} is empty", op, x.shape().to_string());
  }
}

}  // namespace ropewalk
