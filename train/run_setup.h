#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"
#include "framework/threads.h"
#include "layers/transformer.h"
#include "train/config_resolve.h"
#include "train/log_schema.h"

namespace ropewalk {

/// The data and the model of a configuration, checked against each other and against the machine's memory.
struct RunSetup {
  Config config;  ///< with model.vocab_size as the data has it
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Transformer> model;  ///< allocated, not yet initialized
  std::unique_ptr<Workers> workers;
};

/// Opens the data of a configuration and sets its model.vocab_size to what they have. `known` is the tokenizer of an
/// earlier run, which a chars tokenizer then follows. Throws DataError, or ConfigError where the key is given and the
/// data have another vocabulary.
std::unique_ptr<Dataset> open_data(Config& config, const Tokenizer* known = nullptr);

/// Throws DataError, ConfigError or Error; nothing is written and nothing large allocated before all is checked.
RunSetup set_up(const Config& config, const Tokenizer* known = nullptr);

/// The attributes of the log of a run that starts now, on this machine.
LogHeader make_log_header(const std::string& directory, const ResolvedConfig& config, const std::string& command_line);

/// Where the run in `directory` keeps its vocabulary, if it has one of its own (data.tokenizer = chars).
std::string vocabulary_in(const std::string& directory);

DType dtype_of(const TrainConfig& train);

}  // namespace ropewalk
