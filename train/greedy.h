#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/tape.h"
#include "layers/transformer.h"
#include "train/model_batch.h"

namespace ropewalk {

/// Answers of an encoder_decoder to some sources, token by token with a cache: each time the likeliest one (the first
/// of equal ones), read back in, until <end> or padding, which no answer has.
class GreedyAnswers {
 public:
  /// Answers of up to `most` tokens to the sources of `part`; both must outlive it.
  GreedyAnswers(const Transformer& model, const BatchPart& part, int64_t most);

  /// Has every answer its <end> or all its tokens?
  bool done() const { return length_ == most_ || open_ == 0; }
  /// Gives each sequence its next token. The tables of the model are prepared for the sources and for length() + 1; the
  /// first step encodes the sources.
  void step(Workspace& workspace);
  /// Tokens that each sequence has so far.
  int64_t length() const { return length_; }
  /// [sequences, most]: the answers with their <end>, and kPad behind.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  const Transformer& model_;
  BatchPart part_;
  int64_t most_;
  KeyValueCache cache_;
  int64_t length_ = 0;
  int64_t open_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> next_;     ///< [sequences], what is read next
  std::vector<int32_t> targets_;  ///< of linear_token_losses(): none
  std::vector<float> losses_;
};

}  // namespace ropewalk
