#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "layers/transformer.h"
#include "train/checkpoint_file.h"
#include "train/config.h"

namespace ropewalk {

/// A run that was trained, under its own configuration with overrides.
struct TrainedRun {
  std::string directory;
  Config before;  ///< as it was trained
  Config now;     ///< with the overrides
  Checkpoint checkpoint;
  std::optional<Tokenizer> vocabulary = {};  ///< its own, where it has one (data.tokenizer = chars)
};

/// What a command reads of the configuration of a run that was trained.
struct TrainedRunUse {
  std::string unmoved;            ///< of another key: "does not change the evaluation"
  std::vector<std::string> keys;  ///< whole keys, and sections with their dot: "train.threads", "eval."
};

/// Reads the configuration and the newest checkpoint of a run. What fixes the parameters cannot be overridden, nor
/// what `use` does not read (also what acts in training only, as model.dropout); of others that change nothing is
/// warned. Throws ConfigError, CheckpointError, DataError.
TrainedRun open_trained_run(const std::string& run_directory, const std::vector<std::string>& overrides,
                            const TrainedRunUse& use);

/// A model with its trained parameters, and what its tokens mean.
struct TrainedModel {
  Config config;
  int64_t step = 0;  ///< of the checkpoint
  Tokenizer tokenizer = {};
  std::unique_ptr<Transformer> model = {};
};

/// The model of a run, by its newest checkpoint; the data it was trained on are not needed. Overrides may be keys that
/// change what the model computes and not its parameters. Throws as open_trained_run(), and Error where the machine has
/// not the memory.
TrainedModel load_trained_model(const std::string& run_directory, const std::vector<std::string>& overrides);

}  // namespace ropewalk
