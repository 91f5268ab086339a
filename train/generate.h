#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "layers/transformer.h"
#include "train/sampling.h"

namespace ropewalk {

/// What is to be generated.
struct GenerationRequest {
  std::vector<std::vector<int32_t>> prompts;  ///< of any lengths, each at least one token
  int64_t tokens = 0;                         ///< most new tokens of a sequence
  Sampling sampling;
  int32_t end_token = -1;      ///< a sequence ends with it; -1: none does
  int64_t first_sequence = 0;  ///< number of the first prompt, for its random numbers
};

/// Why a sequence ends: it has all tokens that were asked for, or the token that ends it, or has taken every position
/// that the scheme serves.
enum class Ending : uint8_t { tokens, end_token, greatest_length };

struct GeneratedSequence {
  std::vector<int32_t> tokens;  ///< the new ones, an end_token among them
  Ending ending = Ending::tokens;
};

struct Generation {
  std::vector<GeneratedSequence> sequences;  ///< one a prompt
  int64_t prompt_tokens = 0;
  int64_t decoded_tokens = 0;  ///< those that cost a step of decoding: all but the first of each sequence
  double prefill_seconds = 0;  ///< for the prompts, and choosing the token after each
  double decode_seconds = 0;   ///< what `each` takes not counted
  int64_t cache_bytes = 0;     ///< the most that was reserved at a time
};

/// A new token of the sequence of prompts[sequence].
using TokenCallback = std::function<void(int64_t sequence, int32_t token)>;

/// Continues the prompts, all at once behind padding at their left; where positions depend on the length of a sequence
/// (PositionScheme::depends_on_length), those of one length at a time. Each becomes what it would alone. `each` is
/// called for every new token as soon as it is chosen.
///
/// With a table of L positions a sequence ends with the token after the L-th. Throws Error for a prompt that is empty,
/// holds a token that is none of the vocabulary or is longer than that, for a model that is not causal, and where the
/// cache does not fit into the machine's memory.
Generation generate(Transformer& model, const GenerationRequest& request, const TokenCallback& each);

}  // namespace ropewalk
