#pragma once

#include <cstdint>

namespace ropewalk {

/// In what numbers an indexer compares queries with keys.
enum class IndexPrecision : uint8_t {
  f32,   ///< those of the operands, which are f64 in a model in f64
  int8,  ///< integers of 8 bits
};

/// Columns a head up to which sums of products of 8-bit integers are exact in f32.
inline constexpr int64_t kMostInt8Columns = (int64_t{1} << 24) / (127 * 127);

}  // namespace ropewalk
