#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "framework/tape.h"
#include "framework/threads.h"
#include "layers/transformer.h"
#include "train/config.h"
#include "train/model_batch.h"

namespace ropewalk {

/// How a model does at several lengths. For text, `lengths` are windows and the loss is over held-out tokens (an
/// encoder's over those that are masked); for tasks they are problem lengths and the loss is over answer tokens, which
/// are predicted given the right ones before, of pairs with their <end>. It is the plain cross-entropy, whatever
/// optim.label_smoothing is.
struct LengthScores {
  std::string protocol;  ///< see protocol_name()
  std::vector<int64_t> lengths;
  std::vector<double> loss;         ///< nats a token; NaN where the length cannot be evaluated
  std::vector<double> accuracy;     ///< tasks: share of answer tokens that are right
  std::vector<double> exact_match;  ///< tasks: share of answers right in every token; of pairs those decoded greedily
  std::vector<int64_t> scored_tokens;
  std::vector<float> loss_by_position;  ///< [length, bucket]; NaN where nothing is scored
  std::vector<std::string> notes;       ///< why a length has no score
};

/// First positions of the buckets of loss_by_position, for windows up to `longest`.
std::vector<int64_t> position_buckets(int64_t longest);

/// Sequences of `length` > 0 positions that go through the model together.
int64_t evaluated_at_once(int64_t length);

/// Measures a model on a dataset; keeps its memory from one evaluation to the next.
class Evaluator {
 public:
  Evaluator(const Config& config, const Dataset& dataset, Workers& workers);
  ~Evaluator();

  /// Throws DataError where the held-out text is too short for the windows, or a task has no problems of a length;
  /// Error where it is to score absurdly many, or none because the draw of an encoder masks nothing.
  void check() const;
  LengthScores run(Transformer& model);
  const std::vector<int64_t>& lengths() const { return config_.eval.lengths; }
  /// The buckets of loss_by_position.
  const std::vector<int64_t>& positions() const { return positions_; }
  std::size_t arena_bytes() const;

 private:
  struct Worker;
  struct Job;
  struct Sums;
  void text_jobs(std::size_t length_index, std::vector<Job>& jobs) const;
  void task_jobs(std::size_t length_index, std::vector<Job>& jobs) const;
  void fill(const Job& job, ModelBatch& batch) const;
  void run_job(const Transformer& model, Worker& worker, const Job& job, Sums& sums) const;
  void decode(Transformer& model, std::span<const Job> jobs, std::span<Sums> sums) const;
  bool scores_a_token(const std::vector<Job>& jobs) const;
  SequenceShape shape_of(std::size_t length_index) const;
  int64_t problems_of(std::size_t length_index) const;
  bool is_task() const { return dataset_.task() != nullptr; }
  bool has_pairs() const { return config_.model.arch == Arch::encoder_decoder; }

  const Config& config_;
  const Dataset& dataset_;
  Workers& workers_;
  std::vector<int64_t> positions_;
  std::vector<std::unique_ptr<Worker>> worker_state_;
};

}  // namespace ropewalk
