#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// y [B, count, D] = the last `count` rows of each sequence of x [B, T, D], 0 <= count <= T.
/// Backward: dx[:, T - count:] += dy.
Var last_rows(Var x, int64_t count);

}  // namespace ropewalk
