#pragma once

#include <cstdint>

#include <hwy/base.h>

namespace ropewalk {

/// Which columns form the pairs that a rotary embedding turns: columns 2i and 2i + 1 (Su et al. 2021), or i and
/// i + dims/2 (GPT-NeoX, LLaMA checkpoints of Hugging Face). The two differ by a permutation of the columns only.
enum class RopePairing : uint8_t { interleaved, split_half };

/// Rotates the first `dims` elements of the row x in place by the angles whose cosines and sines (dims/2 of each, times
/// what the row is scaled by) are given:
///   (a, b) -> (a cos - b sin, a sin + b cos)
/// With `inverse` the transpose of that map: the negative angle under the same scale, as the backward pass wants.
/// Inlined, so that it is compiled for the instruction set of its caller.
template <class T>
HWY_INLINE void rotate_row(T* x, const T* cos, const T* sin, int64_t dims, RopePairing pairing, bool inverse) {
  const int64_t half = dims / 2;
  const T sign = inverse ? T(-1) : T(1);
  const T* HWY_RESTRICT c = cos;
  const T* HWY_RESTRICT s = sin;
  if (pairing == RopePairing::interleaved) {
    T* HWY_RESTRICT pair = x;
    for (int64_t i = 0; i < half; ++i) {
      const T a = pair[2 * i];
      const T b = pair[2 * i + 1];
      const T turn = sign * s[i];
      pair[2 * i] = a * c[i] - b * turn;
      pair[2 * i + 1] = a * turn + b * c[i];
    }
  } else {
    T* HWY_RESTRICT first = x;
    T* HWY_RESTRICT second = x + half;
    for (int64_t i = 0; i < half; ++i) {
      const T a = first[i];
      const T b = second[i];
      const T turn = sign * s[i];
      first[i] = a * c[i] - b * turn;
      second[i] = a * turn + b * c[i];
    }
  }
}

}  // namespace ropewalk
