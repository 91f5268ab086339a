#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/transformer.h"

namespace ropewalk {

/// Feeds tokens to a model with a cache, several sequences side by side, and gives the logits after the last of them.
/// Memory is reserved once; a steady step allocates nothing but what tables of positions grow by.
class Decoder {
 public:
  /// Room for `capacity` tokens of each of `sequences` sequences, of which the first padding[b] hold none. The model
  /// must outlive it, and be fed by nobody else meanwhile. Throws Error where the model is not causal.
  Decoder(Transformer& model, int64_t sequences, int64_t capacity, std::vector<int64_t> padding = {});

  /// Feeds tokens [sequences, count], count >= 1, behind those that were fed before: the logits [sequences, vocab_size]
  /// of what follows. They are valid until the next call. Long prompts pass in parts, except where positions depend on
  /// the length. Throws Error beyond the capacity or what the
  /// position scheme serves.
  const Tensor& feed(std::span<const int32_t> tokens, int64_t count);

  /// Goes on with these sequences alone (see KeyValueCache::keep).
  void keep(std::span<const int64_t> sequences) { cache_.keep(sequences); }

  const KeyValueCache& cache() const { return cache_; }

 private:
  Transformer& model_;
  KeyValueCache cache_;
  Workspace workspace_;
  Tensor logits_;
  std::vector<int32_t> part_;
};

}  // namespace ropewalk
