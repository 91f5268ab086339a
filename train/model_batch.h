#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "data/batch.h"
#include "data/dataset.h"
#include "layers/transformer.h"
#include "train/sequence_shape.h"

namespace ropewalk {

/// Some sequences of a batch as one pass reads them.
struct BatchPart {
  int64_t sequences = 0;
  int64_t length = 0;
  const int32_t* tokens = nullptr;   ///< [sequences, length]
  const int32_t* targets = nullptr;  ///< [sequences, length], kIgnored where nothing counts
  SourceTokens source = {};          ///< of pairs

  /// Gives the pass what the encoder makes of the sources; without sources nothing.
  void encode(const Transformer& model, ForwardPass& pass) const;
};

/// A batch of what a model is trained on and evaluated with: sequences for a decoder or an encoder, pairs of source and
/// target for an encoder_decoder. Nothing outside knows which of the two it is.
class ModelBatch {
 public:
  /// Sets the shape, and with it the kind; memory is kept, so that batches of a size already seen allocate nothing.
  void resize(int64_t sequences, const SequenceShape& shape);

  /// The first sequences of a training step.
  void fill_training(const Dataset& dataset, uint64_t seed, int64_t step);
  /// Evaluation problems of a task from first_index on.
  void fill_evaluation(const Task& task, int64_t length, int64_t first_index);
  /// Windows of held-out text, one a sequence. Only for a batch of sequences.
  void fill_held_out(const Dataset& dataset, std::span<const Window> windows);

  /// Targets that the loss counts.
  int64_t counted() const;
  /// Sequences [first, first + count). Valid until the batch is changed.
  BatchPart part(int64_t first, int64_t count) const;

 private:
  std::variant<Batch, PairBatch> batch_;
};

/// Makes the position tables for passes over sequences of exactly this shape; call it before them, from one thread.
void prepare(Transformer& model, const SequenceShape& shape, const PositionDraw& draw = {});

}  // namespace ropewalk
