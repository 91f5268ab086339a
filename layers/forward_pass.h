#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/ops/dropout.h"
#include "framework/ops/embedding.h"
#include "framework/tape.h"
#include "layers/key_value_cache.h"

namespace ropewalk {

/// What a forward pass is asked to keep for the log; every part is optional.
struct ForwardTrace {
  std::vector<Var>* residuals =
      nullptr;                  ///< receives the residual stream entering block 0, 1, ... and leaving the last
  double* entropy = nullptr;    ///< [n_layers, n_heads]: sums over queries, in nats
  double* max_logit = nullptr;  ///< [n_layers, n_heads]: running maxima
};

/// Which draws dropout takes: pure functions of these numbers, so results do not depend on how a batch is split.
struct DropoutKey {
  double rate = 0.0;
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t first_sequence = 0;  ///< number of the pass's first sequence within the step
};

/// One pass of `sequences` x `length` tokens through the model on one tape.
struct ForwardPass {
  Tape& tape;
  int64_t sequences = 0;
  int64_t length = 0;
  DropoutKey dropout = {};
  ForwardTrace trace = {};
  KeyValueCache* cache = nullptr;         ///< of the tokens before these, which are added to it; inference only
  std::span<const int64_t> lengths = {};  ///< [sequences]: tokens of each, what follows is padding; empty: all
  /// What an encoder made of the source, [sequences, source length, d_model], and how long each source is.
  Var memory = {};
  std::span<const int64_t> memory_lengths = {};
  std::span<const int64_t> padding = {};  ///< [sequences]: leading places that hold no token; with a cache, its own
  uint32_t dropout_site = 0;              ///< counts the places where dropout acts

  /// Where the tokens of the pass stand.
  TokenPlaces places() const {
    return {cache != nullptr ? cache->length() : 0, cache != nullptr ? cache->padding() : padding};
  }

  Var drop(Var x) {
    return ropewalk::dropout(x, dropout.rate, dropout.seed, dropout.step, dropout.first_sequence, dropout_site++);
  }
};

}  // namespace ropewalk
