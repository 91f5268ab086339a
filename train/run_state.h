#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "layers/transformer.h"
#include "optim/adamw.h"
#include "train/checkpoint_file.h"
#include "train/trainer.h"

namespace ropewalk {

/// The counters of a run that a checkpoint keeps beside the parameters and the optimizer's moments.
struct RunState {
  int64_t step = 0;               ///< last step done
  int64_t tokens = 0;             ///< positions fed since the start
  uint64_t data_fingerprint = 0;  ///< of what training draws from (see Dataset::fingerprint)
  double wall_time = 0;           ///< seconds of training since the start
  double train_loss = std::numeric_limits<double>::quiet_NaN();  ///< of the last step
  int64_t evaluated_step = -1;                                   ///< of the last evaluation; -1: none yet
  std::vector<double> last_loss;                                 ///< of the last evaluation, by length
  std::vector<double> last_accuracy;
  std::vector<double> last_exact_match;
  std::vector<double> best_loss;         ///< least of all evaluations, by length
  std::optional<Divergence> divergence;  ///< the first, where training goes on after one
  bool ends_diverged = false;            ///< the last step was not finite
  int64_t from_step = -1;                ///< of what it began with (train.from); -1: nothing, or not known
};

/// Writes parameters, moments and state as the checkpoint of state.step. Throws CheckpointError.
void save_state(const std::string& directory, const Transformer& model, const AdamW& optimizer, const RunState& state,
                const std::string& config_text, int64_t keep);

/// Puts the parameters of a checkpoint into the model, but for those of names that are left out. Throws CheckpointError
/// where a name, shape or dtype differs.
void load_parameters(const Checkpoint& checkpoint, const Transformer& model,
                     bool (*left_out)(const std::string& name) = nullptr);

/// The moments and the state. Throws CheckpointError.
RunState load_state(const Checkpoint& checkpoint, const Transformer& model, const AdamW& optimizer);

/// The checkpoints of the run in `directory`.
std::string checkpoints_in(const std::string& directory);

/// The newest whole checkpoint of a run. Throws CheckpointError that names the run where there is none; files that were
/// passed over go to stderr.
Checkpoint require_checkpoint(const std::string& run_directory);

}  // namespace ropewalk
