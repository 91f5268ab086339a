#pragma once

#include <cstdint>
#include <span>

#include "framework/tape.h"

namespace ropewalk {

/// y [.., D] = scale * row ids[..] of weight [V, D]; `ids_shape` gives the leading axes. An id outside [0, V) is an
/// Error that names it and its position. The ids are copied.
///
/// Backward: dweight[id] += scale dy, in the order of the ids, so that the sum does not depend on who computes it. The
/// weight may serve elsewhere too (a tied head).
Var embedding(const int32_t* ids, const Shape& ids_shape, Var weight, double scale = 1.0);

/// Where T tokens of B sequences stand: token t of sequence b at position start + t - first_token[b]. Before position 0
/// is padding, which is no token. With `positions` the token that would stand at position p stands at positions[p].
struct TokenPlaces {
  int64_t start = 0;
  std::span<const int64_t> first_token = {};  ///< [B]; empty: 0. Outlives the tape
  std::span<const int32_t> positions = {};    ///< ascending. Outlives the tape
};

/// y [B, T, D] = x + rows of table [L, D], learned or constant, at the positions of the tokens; padding gets none. A
/// position beyond the table is an Error.
///
/// Backward: dx += dy        dtable[position] += sum over sequences of dy there
Var add_positions(Var x, Var table, const TokenPlaces& places = {});

}  // namespace ropewalk
