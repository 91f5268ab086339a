#pragma once

#include <cstddef>

namespace ropewalk::testing {

/// Calls of operator new, in all its forms, since this program started.
std::size_t allocations();

}  // namespace ropewalk::testing
