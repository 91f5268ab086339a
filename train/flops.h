#pragma once

#include <cstdint>

#include "train/config.h"
#include "train/sequence_shape.h"

namespace ropewalk {

/// Floating-point operations of the matrix products for one token; a multiply and an add are two. What the mask hides
/// is not counted, nor what an indexer does not choose, nor what a pass makes of offsets, once for all its tokens;
/// padding is, as if every sequence filled its shape.
struct FlopCount {
  double linear = 0;     ///< projections, feed-forward and head
  double attention = 0;  ///< scores and weighted values
  double indexer = 0;    ///< its scores, of all visible keys; its projections are in `linear`
  double forward = 0;    ///< the three together
  double training() const { return 3 * forward; }
};

/// Mean over the positions of a sequence of `length` tokens in a decoder or an encoder by itself. Needs
/// model.vocab_size.
FlopCount count_flops(const Config& config, int64_t length);

/// The same for an encoder_decoder: a source token, with the keys and values that the decoder makes of it, and a target
/// token.
FlopCount count_source_flops(const Config& config, const SequenceShape& shape);
FlopCount count_target_flops(const Config& config, const SequenceShape& shape);

/// Mean over the positions of a sequence of this shape, those of source and target alike.
FlopCount count_flops(const Config& config, const SequenceShape& shape);

}  // namespace ropewalk
