#include "train/trained_run.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "data/error.h"
#include "data/tasks/task.h"
#include "framework/error.h"
#include "framework/message.h"
#include "train/config_error.h"
#include "train/memory.h"
#include "train/run_directory.h"
#include "train/run_setup.h"
#include "train/run_state.h"

namespace ropewalk {
namespace {

bool is_one_of(const std::string& key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Does another value of this key mean another set of parameters? Keys of positions and masks that only turn, scale or
/// hide do not, nor does dropout, which is for training.
bool fixes_parameters(const std::string& key) {
  if (const Option* option = option_table().find(key); !option->schemes.empty()) return option->fixes_parameters;
  if (key.starts_with("data.") || key.starts_with("train.")) {
    return is_one_of(key, {"data.source", "data.tokenizer", "data.task", "data.alphabet", "train.dtype"});
  }
  return !is_one_of(key,
                    {"attention.window_radius", "attention.global_tokens", "attention.scale_scores", "model.dropout"});
}

/// The tokenizer of a run of a model with this vocabulary; its data are not read.
Tokenizer tokenizer_of(const TrainedRun& run, int64_t vocab_size) {
  const DataConfig& data = run.now.data;
  if (data.source == "task") return symbol_tokenizer(task_symbols(make_task(data)));
  if (data.source == "tokens") return id_tokenizer(vocab_size);
  if (run.vocabulary) return *run.vocabulary;
  if (data.tokenizer == "bytes") return {};
  throw DataError(fmt::format("{}: missing; the run has data.tokenizer = {} and cannot be read without",
                              vocabulary_in(run.directory), data.tokenizer));
}

/// Overrides that change nothing of what a model computes.
std::vector<std::string> idle_overrides(const std::vector<std::string>& overrides) {
  std::vector<std::string> errors;
  for (const std::string& word : overrides) {
    const bool changes = word.starts_with("model.") || word.starts_with("position.") || word.starts_with("attention.");
    if (changes && !word.starts_with("model.dropout")) continue;
    errors.push_back(
        fmt::format("command line: error: {} does not change what a trained model generates; keys of "
                    "[position] and [attention] may",
                    word.substr(0, word.find('='))));
  }
  return errors;
}

}  // namespace

TrainedRun open_trained_run(const std::string& run_directory, const std::vector<std::string>& overrides) {
  if (!std::filesystem::exists(config_in(run_directory))) {
    throw ConfigError({fmt::format("{}: error: no config.ini; give the directory of a run", run_directory)});
  }
  const ResolvedConfig before = load_config(config_in(run_directory), {});
  const ResolvedConfig now = load_config(config_in(run_directory), overrides);
  const std::vector<std::string> sections = {"model", "position", "attention", "data", "train"};
  std::vector<std::string> errors;
  for (const KeyDifference& difference : differing_keys(now.config, before.config, sections)) {
    if (fixes_parameters(difference.key)) {
      errors.push_back(fmt::format("command line: error: {}; the parameters of {} were made for the second",
                                   difference.text, run_directory));
    }
  }
  if (!errors.empty()) throw ConfigError(errors);
  // The others are about the run, which was told of them, or about values that derived from what is overridden now.
  const std::string of_overrides = Origin{Origin::Kind::command_line}.text() + ": ";
  for (const std::string& warning : now.warnings) {
    if (warning.starts_with(of_overrides)) message("{}\n", warning);
  }
  TrainedRun run{.directory = run_directory,
                 .before = before.config,
                 .now = now.config,
                 .checkpoint = require_checkpoint(run_directory)};
  if (std::filesystem::exists(vocabulary_in(run_directory))) {
    run.vocabulary = load_tokenizer(vocabulary_in(run_directory));
  }
  return run;
}

TrainedModel load_trained_model(const std::string& run_directory, const std::vector<std::string>& overrides) {
  const TrainedRun run = open_trained_run(run_directory, overrides);
  if (std::vector<std::string> errors = idle_overrides(overrides); !errors.empty()) {
    throw ConfigError(std::move(errors));
  }
  const StoredTensor& embedding = run.checkpoint.file.tensor("token_embedding.weight");
  if (embedding.shape.size() != 2 || embedding.shape[0] < 1) {
    throw CheckpointError(fmt::format("{}: {} is no table of tokens", run.checkpoint.file.path(), embedding.name));
  }
  TrainedModel out{.config = run.now, .step = run.checkpoint.step};
  out.tokenizer = tokenizer_of(run, embedding.shape[0]);
  if (out.tokenizer.vocab_size != embedding.shape[0]) {
    throw CheckpointError(fmt::format("{}: the model has {} tokens, the vocabulary of the run {}",
                                      run.checkpoint.file.path(), embedding.shape[0], out.tokenizer.vocab_size));
  }
  out.config.model.vocab_size = embedding.shape[0];
  const ArchitectureConfig architecture = architecture_of(out.config);
  const double bytes = count_parameters(architecture) * static_cast<double>(size_of(dtype_of(out.config.train)));
  require(bytes <= machine_bytes(), "the parameters of {} take {}, the machine has {}", run_directory,
          bytes_text(bytes), bytes_text(machine_bytes()));
  out.model = std::make_unique<Transformer>(architecture, dtype_of(out.config.train));
  out.model->allocate();
  load_parameters(run.checkpoint, *out.model);
  return out;
}

}  // namespace ropewalk
