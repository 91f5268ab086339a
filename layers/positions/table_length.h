#pragma once

#include <bit>
#include <cstdint>

namespace ropewalk {

/// How long a table of positions is made for passes of `length`, where a longer one serves as well: a power of two, so
/// that decoding, whose passes grow by a token, makes a new one seldom.
inline int64_t table_length(int64_t length) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
}

}  // namespace ropewalk
