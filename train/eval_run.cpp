#include "train/eval_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "framework/message.h"
#include "train/config_error.h"
#include "train/run_directory.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/text.h"

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

}  // namespace

RunEvaluation evaluate_run(const std::string& run_directory, const std::vector<std::string>& overrides) {
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
  const Checkpoint checkpoint = require_checkpoint(run_directory);
  std::optional<Tokenizer> known;
  if (std::filesystem::exists(vocabulary_in(run_directory))) known = load_tokenizer(vocabulary_in(run_directory));
  RunSetup setup = set_up(now.config, known ? &*known : nullptr);
  load_parameters(checkpoint, *setup.model);
  Evaluator evaluator(setup.config, *setup.dataset, *setup.workers);
  return {.scores = evaluator.run(*setup.model), .trained_length = trained_length(before.config)};
}

std::string scores_text(const RunEvaluation& evaluation) {
  const LengthScores& scores = evaluation.scores;
  const bool task = !scores.accuracy.empty();
  std::string out = fmt::format("protocol: {}\n{:>8} {:>7} {:>10} {:>12}{}\n", scores.protocol, "length", "times",
                                "loss", "scored", task ? "   accuracy  exact match" : "");
  for (std::size_t i = 0; i < scores.lengths.size(); ++i) {
    const double times =
        static_cast<double>(scores.lengths[i]) / static_cast<double>(std::max<int64_t>(1, evaluation.trained_length));
    out += fmt::format("{:>8} {:>6.3g}x ", scores.lengths[i], times);
    if (scores.scored_tokens[i] == 0) {
      out += "beyond its table\n";
      continue;
    }
    out += fmt::format("{:>10.4f} {:>12}", unsigned_nan(scores.loss[i]), scores.scored_tokens[i]);
    if (task) out += fmt::format(" {:>10.4f} {:>12.4f}", scores.accuracy[i], scores.exact_match[i]);
    out += "\n";
  }
  return out;
}

}  // namespace ropewalk
