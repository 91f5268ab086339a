#include "train/run_setup.h"

#include <fmt/format.h>

#include "framework/error.h"
#include "train/config_error.h"
#include "train/evaluation.h"
#include "train/machine.h"
#include "train/memory.h"
#include "train/run_directory.h"

namespace ropewalk {
namespace {

Objective objective_of(Arch arch) {
  switch (arch) {
    case Arch::decoder:
      return Objective::next_token;
    case Arch::encoder:
      return Objective::masked_token;
    case Arch::encoder_decoder:
      return Objective::source_to_target;
  }
  fail("model.arch has the unknown value {}", static_cast<int>(arch));
}

}  // namespace

DType dtype_of(const TrainConfig& train) {
  return train.dtype == "f64" ? DType::f64 : DType::f32;
}

LogHeader make_log_header(const std::string& directory, const ResolvedConfig& config, const std::string& command_line) {
  return {.run_id = run_id_of(directory),
          .config = print_config(config, false),
          .command_line = command_line,
          .version = ROPEWALK_VERSION,
          .host = host_name(),
          .cpu = cpu_name(),
          .device = config.config.train.device,
          .started = utc_now()};
}

std::string vocabulary_in(const std::string& directory) {
  return directory + "/vocabulary.txt";
}

std::unique_ptr<Dataset> open_data(Config& config, const Tokenizer* known) {
  const int64_t given = config.model.vocab_size;
  std::unique_ptr<Dataset> dataset =
      open_dataset(config.data, config.train.context_length, given, known, objective_of(config.model.arch));
  config.model.vocab_size = dataset->vocab_size();
  if (given != 0 && given != config.model.vocab_size) {
    throw ConfigError({fmt::format("error: model.vocab_size = {}, but the data has {} tokens; leave the key out", given,
                                   config.model.vocab_size)});
  }
  return dataset;
}

RunSetup set_up(const Config& config, const Tokenizer* known) {
  RunSetup out{.config = config};
  // Sizes that the configuration alone shows to be absurd are refused before the data is read.
  require_memory(estimate_memory(config, count_parameters(architecture_of(config)), config.model.vocab_size,
                                 training_shape(config)));
  out.dataset = open_data(out.config, known);
  const ArchitectureConfig architecture = architecture_of(out.config);
  require_memory(estimate_memory(out.config, count_parameters(architecture), out.config.model.vocab_size,
                                 longest_evaluation_shape(config)));
  out.workers = std::make_unique<Workers>(config.train.threads);
  Evaluator(out.config, *out.dataset, *out.workers).check();
  out.model = std::make_unique<Transformer>(architecture, dtype_of(config.train));
  out.model->allocate();
  return out;
}

}  // namespace ropewalk
