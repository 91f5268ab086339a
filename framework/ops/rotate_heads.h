#pragma once

#include "framework/ops/embedding.h"
#include "framework/ops/heads.h"
#include "framework/ops/rope.h"

namespace ropewalk {

/// The heads side by side, [B, rows, count * width], each turned by the table's row for the position of its token, as
/// queries or as keys; columns from `dims` on pass unchanged. Padding before a sequence's first token, which is not
/// read, gives zeros and passes no gradient. The table covers all positions, dims <= width, and outlives the tape.
///
/// Backward: the heads' columns of dx += dy turned back, times the same factor.
Var rotate_heads(const Heads& heads, const RotaryTable& table, RotarySide side, const TokenPlaces& places = {});

}  // namespace ropewalk
