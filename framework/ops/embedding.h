#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// y [.., D] = scale * row ids[..] of weight [V, D]; `ids_shape` gives the leading axes. An id outside [0, V) is an
/// Error that names it and its position. The ids are copied.
///
/// Backward: dweight[id] += scale dy, in the order of the ids, so that the sum does not depend on who computes it. The
/// weight may serve elsewhere too (a tied head).
Var embedding(const int32_t* ids, const Shape& ids_shape, Var weight, double scale = 1.0);

/// y [B, T, D] = x + rows start .. start + T - 1 of table [L, D], learned or constant, added to every sequence. Rows
/// beyond the table are an Error.
///
/// Backward: dx += dy        dtable[start + t] += sum over sequences of dy[:, t]
Var add_positions(Var x, Var table, int64_t start);

}  // namespace ropewalk
