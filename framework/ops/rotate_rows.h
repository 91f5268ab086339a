#pragma once

#include <cstdint>

#include <hwy/base.h>

#include "framework/ops/rope.h"

namespace ropewalk {

/// Rotates rows of queries or keys in place, `ld` apart, the first of which stands at `position`; `inverse` for
/// gradients. Without a table nothing turns. Inlined, as rotate_row() is.
template <class T>
HWY_INLINE void rotate_rows(const RotaryTable* rotary, RotarySide side, int64_t position, int64_t rows, int64_t ld,
                            bool inverse, T* x) {
  if (rotary == nullptr) return;
  const bool keys = side == RotarySide::keys;
  const int64_t half = rotary->dims / 2;
  const T* cos = (keys ? rotary->key_cos : rotary->cos).template data<T>() + position * half;
  const T* sin = (keys ? rotary->key_sin : rotary->sin).template data<T>() + position * half;
  for (int64_t r = 0; r < rows; ++r) {
    rotate_row<T>(x + r * ld, cos + r * half, sin + r * half, rotary->dims, rotary->pairing, inverse);
  }
}

}  // namespace ropewalk
