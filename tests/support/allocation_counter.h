#pragma once

#include <cstddef>

namespace ropewalk::testing {

/// Allocations since this program started: calls of operator new in all its forms; under AddressSanitizer, which owns
/// these operators, those of malloc besides.
std::size_t allocations();

}  // namespace ropewalk::testing
