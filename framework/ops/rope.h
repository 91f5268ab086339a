#pragma once

#include <cstdint>
#include <span>

#include "framework/ops/rope_row.h"
#include "framework/tape.h"

namespace ropewalk {

/// Cosines and sines [positions, dims/2] of the angles of a rotary embedding, in the number format of the model, times
/// what queries and keys are scaled by. Where both are scaled alike they share memory.
struct RotaryTable {
  RopePairing pairing = RopePairing::interleaved;
  int64_t dims = 0;  ///< columns that are rotated, the first of each head; even
  Tensor cos, sin;   ///< of queries
  Tensor key_cos, key_sin;
};

/// How queries and keys are scaled beside the rotation (xPos, Sun et al. 2022): pair i of a query at position p times
/// exp(rate_i (p - centre)), of a key there times exp(-rate_i (p - centre)). Scores know p_query - p_key only, whatever
/// the centre is; it keeps both factors in range.
struct RotaryScale {
  std::span<const double> rates = {};  ///< one a pair; empty: none
  double centre = 0.0;
};

/// The table of positions start .. start + count - 1, from dims/2 inverse frequencies: angle = position *
/// inverse_frequency, in double whatever `dtype` is; queries and keys are both multiplied by `attention_factor`.
RotaryTable make_rotary_table(std::span<const double> inverse_frequencies, double attention_factor, int64_t start,
                              int64_t count, RopePairing pairing, DType dtype, const RotaryScale& scale = {});
/// The same with row t of positions[t].
RotaryTable make_rotary_table(std::span<const double> inverse_frequencies, double attention_factor,
                              std::span<const int32_t> positions, RopePairing pairing, DType dtype,
                              const RotaryScale& scale = {});

/// Which of the two a table is to turn.
enum class RotarySide : uint8_t { queries, keys };

/// Rotary position embedding (Su et al. 2021) of x [B, H, T, dk]: row t of the table turns the first `dims` columns of
/// every row t as those of queries or of keys; the other columns pass unchanged. The table has at least T rows, dims <=
/// dk, and its memory must outlive the tape.
///
/// Backward: dx += dy turned back, times the same factor.
Var rope(Var x, const RotaryTable& table, RotarySide side = RotarySide::queries);

}  // namespace ropewalk
