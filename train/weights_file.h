#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "layers/transformer.h"
#include "train/config.h"
#include "train/weight_names.h"

namespace ropewalk {

/// What a weights file says of itself; nothing of it where another program wrote the file.
struct WeightsHeader {
  std::optional<Config> config = {};  ///< that of the run, with overrides of the export
  std::optional<int64_t> step = {};
  std::optional<Tokenizer> vocabulary = {};  ///< of a run with data.tokenizer = chars
};

/// What an export wrote.
struct ExportedWeights {
  std::vector<std::string> files;
  std::vector<std::string> notes;  ///< what a reader has to know besides: a sentence each
};

/// Writes the weights of the newest checkpoint of a run: TARGET where that ends in .safetensors, else
/// TARGET/model.safetensors; with names of transformers a config.json beside it. `overrides` are keys of [position] and
/// [attention], as of `ropewalk eval`. Throws ConfigError with every key that keeps the model from having these names,
/// and what open_trained_run() throws; CheckpointError where the file cannot be written.
ExportedWeights export_weights(const std::string& run_directory, const std::vector<std::string>& overrides,
                               WeightNames names, const std::string& target);

/// Is this a file that train.from may name, in place of a run's directory?
bool is_weights_file(const std::string& path);

/// What follows the name of something else in a message.
inline constexpr const char* kNothingToBeginWith = ": holds no run (no config.ini), and is no file of weights";

/// Reads no tensor. Throws CheckpointError, and ConfigError for a configuration that this version cannot read.
WeightsHeader read_weights_header(const std::string& path);

/// Puts the tensors of a file with the names of Ropewalk, GPT-2 or Llama, of F16, BF16, F32 or F64, into the allocated
/// parameters of `model`, whose configuration is `config`. All must be there, and no others; but the indexers of sparse
/// attention stay as they are where the file has none. Throws CheckpointError
/// that names every tensor that is missing, superfluous or of another shape; ConfigError with every key in which the
/// model is not of the architecture of the file.
void load_weights(const std::string& path, const Config& config, const Transformer& model);

}  // namespace ropewalk
