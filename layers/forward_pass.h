#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/ops/dropout.h"
#include "framework/ops/embedding.h"
#include "framework/ops/rope.h"
#include "framework/ops/selected_keys.h"
#include "framework/tape.h"
#include "layers/key_value_cache.h"

namespace ropewalk {

/// What a forward pass is asked to keep for the log; every part is optional.
struct ForwardTrace {
  std::vector<Var>* residuals =
      nullptr;                  ///< receives the residual stream entering block 0, 1, ... and leaving the last
  double* entropy = nullptr;    ///< [n_layers, n_heads]: sums over queries, in nats
  double* max_logit = nullptr;  ///< [n_layers, n_heads]: running maxima
  /// Receives the keys that each layer's indexer chose, in the memory of the tape; nothing where a layer attends to
  /// all.
  std::vector<SelectedKeys>* selected = nullptr;
};

/// How the indexers learn in a pass (attention.pattern = top_k): each by the divergence of its softmax from the
/// head-summed attention of its layer, over the keys that the queries attend to.
struct IndexTraining {
  std::vector<Var>* losses = nullptr;  ///< receives a scalar a layer, to be added to what backward() starts from
  /// Of the whole step: a loss is the sum over queries, over `sequences` times the length of a sequence. Padding, which
  /// sees nothing, adds nothing to the sum.
  int64_t sequences = 1;
  bool warmup = false;  ///< queries attend to all visible keys, whatever the indexer would choose
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
  IndexTraining index_training = {};
  const RotaryTable* index_rotation = nullptr;  ///< of the indexers; the stack of layers sets it
  uint32_t dropout_site = 0;                    ///< counts the places where dropout acts

  /// Where the tokens of the pass stand.
  TokenPlaces places() const {
    return {cache != nullptr ? cache->length() : 0, cache != nullptr ? cache->padding() : padding};
  }

  Var drop(Var x) {
    return ropewalk::dropout(x, dropout.rate, dropout.seed, dropout.step, dropout.first_sequence, dropout_site++);
  }
};

}  // namespace ropewalk
