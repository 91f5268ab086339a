#pragma once

#include <cstdint>
#include <span>

namespace ropewalk {

/// Masked-token prediction (Devlin et al. 2019, section 3.1). Each position is chosen with the same probability, on its
/// own. Of the chosen ones 80 % are read as the mask token, 10 % as a random token, 10 % as what they are; the model
/// has to tell what stood there. All others are read as they are and do not count.
struct Masking {
  double probability = 0.15;
  int32_t mask_token = 0;  ///< the id after the last token of the text; random tokens are uniform in [0, mask_token)
};

/// Masks a training sequence in place and writes its targets: a pure function of (seed, step, index) and the tokens.
/// Where no position is drawn one is, uniformly, so that each sequence has something to predict. Both spans have the
/// length of the sequence.
void mask_training(const Masking& masking, uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets);

/// Masks a stretch of the held-out text that begins at its token `first`. The draw belongs to the place in the text, so
/// evaluations, runs, and windows of any length that cover a place all mask it alike; there may be no target at all.
void mask_held_out(const Masking& masking, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets);

}  // namespace ropewalk
