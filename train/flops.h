#pragma once

#include <cstdint>

#include "train/config.h"

namespace ropewalk {

/// Floating-point operations of the matrix products for one token; a multiply and an add are two. What the mask hides
/// is not counted.
struct FlopCount {
  double linear = 0;     ///< projections, feed-forward and head
  double attention = 0;  ///< scores and weighted values
  double forward = 0;    ///< the two together
  double training() const { return 3 * forward; }
};

/// Mean over the positions of a sequence of `length` tokens. Needs model.vocab_size.
FlopCount count_flops(const Config& config, int64_t length);

}  // namespace ropewalk
