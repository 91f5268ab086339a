#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/batch.h"
#include "data/config.h"
#include "data/corpus.h"
#include "data/tasks/task.h"
#include "data/windows.h"

namespace ropewalk {

/// What a model is trained to predict; its architecture decides (model.arch).
enum class Objective : uint8_t {
  next_token,       ///< decoder: each next token of a sequence
  masked_token,     ///< encoder: the tokens behind masks (data/masking.h); corpora only
  source_to_target  ///< encoder-decoder: an answer to a source (data/tasks/pairs.h); tasks only
};

/// What a run trains on and is evaluated with: either a corpus (source = text or tokens), whose held-out part is scored
/// in windows (data/windows.h), or a generated task, whose evaluation problems are scored as answers (data/score.h).
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const Tokenizer& tokenizer() const = 0;
  /// Ids that a model reads and predicts: those of the tokenizer and, with masked_token, the mask token after them.
  virtual int64_t vocab_size() const { return tokenizer().vocab_size; }

  /// Fills sequence `index` of `step`: a pure function of (seed, step, index), so that resuming needs no state and no
  /// cutting into micro-batches changes what a step sees. Both spans have the length of the sequence.
  virtual void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                             std::span<int32_t> targets) const = 0;

  /// Exactly one of the two is there.
  virtual const Corpus* corpus() const { return nullptr; }
  virtual const Task* task() const { return nullptr; }

  /// Corpora: a window of the held-out part as a model is to read it, and its targets, kIgnored before first_scored.
  /// Both spans have the length of the window. Throws std::logic_error where there is no corpus.
  virtual void fill_held_out(const Window& window, std::span<int32_t> tokens, std::span<int32_t> targets) const;

  /// One line for people: files or task, tokens, vocabulary.
  virtual std::string describe() const = 0;

  /// A hash of everything that training draws from; a run that resumes with another would not continue itself.
  virtual uint64_t fingerprint() const = 0;
};

/// Loads or sets up the data of a run. `context_length` is the length of training sequences; `vocab_size` that of
/// source = tokens (0: the greatest id + 1), a mask token included; `known` the tokenizer of an earlier run, followed
/// by source = text with chars. Throws DataError: see load_corpus and make_task; also where the training part is
/// shorter than one sequence and its target, the longest training problem (each half of a pair) does not fit into the
/// context, or the objective is not one of the source.
std::unique_ptr<Dataset> open_dataset(const DataConfig& config, int64_t context_length, int64_t vocab_size = 0,
                                      const Tokenizer* known = nullptr, Objective objective = Objective::next_token);

/// Training sequences [first_index, first_index + batch.sequences) of a step, into a batch that has its shape.
void fill_training_batch(const Dataset& dataset, uint64_t seed, int64_t step, int64_t first_index, Batch& batch);

/// Problems [first_index, first_index + batch.sequences) of the fixed evaluation set of a task at one problem length.
/// They do not depend on the seed of a run, so runs are compared on the same problems.
void fill_evaluation_batch(const Task& task, int64_t length, int64_t first_index, Batch& batch);

/// The problems of fill_training_batch() and fill_evaluation_batch() as source -> target pairs, into a batch that has
/// its shape: pair_tokens() of the longest problem, or wider.
void fill_training_pairs(const Task& task, uint64_t seed, int64_t step, int64_t first_index, PairBatch& batch);
void fill_evaluation_pairs(const Task& task, int64_t length, int64_t first_index, PairBatch& batch);

}  // namespace ropewalk
