#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// Heads side by side in the columns of x [B, rows, columns]: head h takes `width` columns from first + h width on.
struct Heads {
  Var x;
  int64_t first = 0;
  int64_t count = 1;
  int64_t width = 0;
  int64_t rows = -1;  ///< the first rows of x that there are, as in a cache with room for more; -1: all
};

/// Throws unless the heads lie within x [B, rows, columns].
void check_heads(const char* op, const Heads& heads);

/// y [B, T, n_heads (a.width + b.width)]: head h is that of a, then that of b. A single head of either serves all.
///
/// Backward: da, db += their columns of dy; a head that serves all gets the sum.
Var join_heads(const Heads& a, const Heads& b, int64_t n_heads);

/// A matrix of each head's own times its columns, for weight [n_heads m, n], whose rows from h m on are W_h:
///   y_h [.., n] = x_h [.., m] W_h        transposed: y_h [.., m] = x_h [.., n] W_h^T
/// Latent attention decodes with it, for keys and values are then never expanded.
///
/// Backward: dx_h += dy_h W_h^T, dW_h += x_h^T dy_h        transposed: dx_h += dy_h W_h, dW_h += dy_h^T x_h
Var head_linear(const Heads& x, Var weight, bool transposed);

}  // namespace ropewalk
