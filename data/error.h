#pragma once

#include <stdexcept>

namespace ropewalk {

/// Data that cannot be used: the message names the file (and the offset in it), what was found, the limit and the way
/// out.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ropewalk
