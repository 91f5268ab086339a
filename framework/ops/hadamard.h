#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// Orthonormal Walsh-Hadamard transform of the rows of x [.., n], n a power of two: y = H x / sqrt(n), with Sylvester's
/// H_1 = [1], H_2n = [[H_n, H_n], [H_n, -H_n]]. It spreads an outlier over the whole row and leaves every product of
/// two rows as it is, so that quantization loses less. With a `width`, of every `width` elements of a row, as of heads
/// side by side; 0: of all.
///
/// The matrix is symmetric and its own inverse. Backward: dx += H dy / sqrt(n).
Var hadamard(Var x, int64_t width = 0);

}  // namespace ropewalk
