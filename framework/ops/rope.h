#pragma once

#include <cstdint>
#include <span>

#include "framework/ops/rope_row.h"
#include "framework/tape.h"

namespace ropewalk {

/// Cosines and sines [positions, dims/2] of the angles of a rotary embedding, in the number format of the model, both
/// times the attention factor.
struct RotaryTable {
  RopePairing pairing = RopePairing::interleaved;
  int64_t dims = 0;  ///< columns that are rotated, the first of each head; even
  Tensor cos, sin;
};

/// The table of positions start .. start + count - 1, from dims/2 inverse frequencies: angle = position *
/// inverse_frequency, in double whatever `dtype` is.
RotaryTable make_rotary_table(std::span<const double> inverse_frequencies, double attention_factor, int64_t start,
                              int64_t count, RopePairing pairing, DType dtype);

/// Rotary position embedding (Su et al. 2021) of x [B, H, T, dk]: row t of the table turns the first `dims` columns of
/// every row t, times the attention factor; the other columns pass unchanged. The table has at least T rows, dims <=
/// dk, and its memory must outlive the tape.
///
/// Backward: dx += dy turned back, times the same factor.
Var rope(Var x, const RotaryTable& table);

}  // namespace ropewalk
