#include "train/eval_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "framework/message.h"
#include "train/config_error.h"
#include "train/idle_keys.h"
#include "train/parameter_keys.h"
#include "train/run_directory.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/text.h"

namespace ropewalk {
namespace {

/// What the parameters do not fix and the caller changed: "position.rope_scaling = yarn".
std::vector<std::string> changed_values(const Config& now, const Config& before) {
  const std::vector<std::string> sections = {"model", "position", "attention", "data"};
  std::vector<std::string> out;
  for (const KeyDifference& difference : differing_keys(now, before, sections)) {
    if (!idle_because_of(now, difference.key).empty()) continue;
    out.push_back(fmt::format("{} = {}", difference.key, config_value(now, difference.key)));
  }
  return out;
}

}  // namespace

RunEvaluation evaluate_run(const std::string& run_directory, const std::vector<std::string>& overrides) {
  if (!std::filesystem::exists(config_in(run_directory))) {
    throw ConfigError({fmt::format("{}: error: no config.ini; give the directory of a run", run_directory)});
  }
  const ResolvedConfig before = load_config(config_in(run_directory), {});
  const ResolvedConfig now = load_config(config_in(run_directory), overrides);
  std::vector<std::string> errors;
  for (const std::string& conflict : parameter_conflicts(now.config, before.config)) {
    errors.push_back(
        fmt::format("command line: error: {}; the parameters of {} were made for the second", conflict, run_directory));
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
  return {.scores = evaluator.run(*setup.model),
          .trained_length = trained_length(before.config),
          .changed = changed_values(now.config, before.config)};
}

std::string scores_text(const RunEvaluation& evaluation) {
  const LengthScores& scores = evaluation.scores;
  const bool task = !scores.accuracy.empty();
  std::string out = fmt::format("protocol: {}\n", scores.protocol);
  if (!evaluation.changed.empty()) out += fmt::format("not as trained: {}\n", joined(evaluation.changed));
  out += fmt::format("{:>8} {:>7} {:>10} {:>12}{}\n", "length", "times", "loss", "scored",
                     task ? "   accuracy  exact match" : "");
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
