#pragma once

#include <cstdint>
#include <limits>

namespace ropewalk {

/// Columns of a packed row of n numbers: a whole number of the widest vectors.
template <class T>
constexpr int64_t padded_width(int64_t n) {
  constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  return (n + kLanes - 1) / kLanes * kLanes;
}

/// Rows that are transposed together, so that a tile of them is one run of memory.
inline constexpr int64_t kTileColumns = 128;

constexpr int64_t tiled_columns(int64_t n) {
  return (n + kTileColumns - 1) / kTileColumns * kTileColumns;
}

/// Operands of smaller magnitude than 2^kSafeExponent can be multiplied and summed up without overflow.
template <class T>
inline constexpr int kSafeExponent = std::numeric_limits<T>::max_exponent / 2 - 8;

}  // namespace ropewalk
