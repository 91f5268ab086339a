#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "framework/op_clock.h"
#include "framework/parameter.h"
#include "framework/tape.h"
#include "framework/threads.h"
#include "layers/transformer.h"
#include "optim/adamw.h"
#include "train/config.h"
#include "train/model_batch.h"

namespace ropewalk {

/// Which measurements of a step are wanted.
struct StepRequest {
  bool norms = false;        ///< norms of parameters and updates
  bool residuals = false;    ///< gradient norm and rms of the residual stream
  bool attention = false;    ///< entropy and greatest logit of every head
  OpClock* clock = nullptr;  ///< laps after every op, "data", "lanes" (sums of gradients) and "optimizer"; one thread
};

/// Where a NaN or an infinity first appeared.
struct Divergence {
  int64_t step = 0;
  std::string module;        ///< e.g. "blocks.3.attention"
  bool in_gradient = false;  ///< in the backward pass; otherwise in the forward pass
};

/// What one step did. Spans stay valid until the next step.
struct StepResult {
  int64_t step = 0;
  double loss = 0;  ///< mean over the target tokens of the step, with optim.label_smoothing
  /// Divergence of the indexers from the attention they foretell, in nats, mean over queries and layers; NaN without
  /// indexers.
  double index_loss = std::numeric_limits<double>::quiet_NaN();
  double lr = 0;
  double grad_norm = 0;  ///< before clipping, of all parameters: an indexer's gradient is that of its own loss
  int64_t tokens = 0;    ///< positions fed, of sources too, targets or not
  std::span<const double> squared_gradients;  ///< one a parameter, before clipping
  std::span<const double> squared_values;     ///< one a parameter, after the update; with `norms`
  std::span<const double> squared_updates;
  std::span<const double> residual_squared_gradients;  ///< [n_layers + 1]; with `residuals`; the decoder's of two
  std::span<const double> residual_mean_squares;
  std::span<const double> entropy;  ///< [n_layers, n_heads], means over queries; with `attention`; self-attention
  std::span<const double> max_logit;
  std::optional<Divergence> divergence;  ///< set: nothing was updated
};

/// One optimizer step after the other.
///
/// The sequences of a step are split into a number of lanes that does not depend on the threads. A worker carries a
/// lane's sequences through forward and backward, some at a time, on a tape of its own; the lanes' gradients are added
/// in their order. So results are bit-identical for any number of threads.
///
/// With attention.pattern = top_k the indexers' losses are added to the model's before the backward pass. They reach
/// the parameters of the indexers alone, which get nothing else. In the first attention.index_warmup_steps steps the
/// backward pass starts from the indexers' losses, attention is to all visible keys, and the optimizer leaves all other
/// parameters as they are. The gradient is clipped as a whole, by the norm over all parameters.
class Trainer {
 public:
  Trainer(const Config& config, Transformer& model, const Dataset& dataset, Workers& workers);
  ~Trainer();

  /// Lets every worker carry the passes of a step for the memory that they take, and drops what comes out. After it a
  /// step with this request allocates nothing and meets no new page, whichever worker carries which of its lanes;
  /// without it that holds once each worker has happened to carry the longest. The step's own buffers and the
  /// optimizer's need one step besides. The results of steps do not depend on it. `clock` is not lapped.
  void warm_up(const StepRequest& request);

  /// Step `step`, counting from 1.
  StepResult step(int64_t step, const StepRequest& request);

  AdamW& optimizer() { return optimizer_; }
  /// Bytes of activations and scratch memory held by the tapes of all workers; products hold some 5 MiB more a thread.
  std::size_t arena_bytes() const;

 private:
  struct Lane;
  struct Worker;
  void fill_batch(int64_t step);
  void run_lane(Worker& worker, Lane& lane, GradientBuffer& gradients, int64_t step, const StepRequest& request);
  Divergence find_divergence(int64_t step);
  bool has_indexers() const { return config_.attention.pattern == AttentionPattern::top_k; }
  bool warms_up_indexers(int64_t step) const { return has_indexers() && step <= config_.attention.index_warmup_steps; }
  /// A pass over sequences that begin with number `first`, their sources encoded. `index_losses` receives those of the
  /// indexers, where there are any.
  ForwardPass begin_pass(Tape& tape, const BatchPart& part, int64_t first, int64_t step,
                         std::vector<Var>& index_losses) const;
  /// What the backward pass of step `step` starts from.
  Var objective(Var loss, std::span<const Var> index_losses, int64_t step) const;

  const Config& config_;
  Transformer& model_;
  const Dataset& dataset_;
  Workers& workers_;
  AdamW optimizer_;
  int64_t sequences_;
  int64_t micro_batch_;
  SequenceShape shape_;
  ModelBatch batch_;
  int64_t targets_ = 0;  ///< counted in the step
  GradientBuffer total_;
  std::vector<std::unique_ptr<Worker>> worker_state_;
  std::vector<Lane> lanes_;
  std::vector<int64_t> frozen_steps_;  ///< see AdamW::step(); empty without a warm-up
  std::vector<double> squared_gradients_;
  UpdateNorms update_norms_;
  std::vector<double> residual_gradients_, residual_squares_, entropy_, max_logit_;
};

/// How the sequences of a step are divided. It depends on the configuration alone, never on the threads, because the
/// order of summation follows from it.
struct BatchPlan {
  /// 8, or fewer where each would have fewer than 128 positions, sources included: the products would be too small.
  int64_t lanes = 1;
  /// Sequences that go through a tape together: about 512 positions, enough for the products and few enough for the
  /// cache, or what train.micro_batch says. At most those of a lane.
  int64_t micro_batch = 1;
};
BatchPlan plan_batch(const Config& config);

}  // namespace ropewalk
