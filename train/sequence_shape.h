#pragma once

#include <cstdint>
#include <string>

#include "train/config.h"

namespace ropewalk {

/// Positions of one sequence as a model reads it.
struct SequenceShape {
  int64_t source = 0;  ///< that the encoder of an encoder_decoder reads; 0: there is none
  int64_t length = 0;  ///< that the decoder, or the only stack, reads and predicts at

  int64_t positions() const { return source + length; }
  bool operator==(const SequenceShape&) const = default;
};

/// Of a training sequence: train.context_length; of an encoder_decoder the longest source and the longest target of its
/// task. Throws DataError where the task is none.
SequenceShape training_shape(const Config& config);

/// Of a sequence that is evaluated at `length`, in the unit of eval.lengths. Throws DataError where the task has no
/// problems of that length.
SequenceShape evaluation_shape(const Config& config, int64_t length);

/// Of the longest sequence that is evaluated.
SequenceShape longest_evaluation_shape(const Config& config);

/// "41 positions", "20 source and 21 target positions".
std::string shape_text(const SequenceShape& shape);

}  // namespace ropewalk
