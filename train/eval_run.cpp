#include "train/eval_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "train/idle_keys.h"
#include "train/parameter_keys.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/text.h"
#include "train/trained_run.h"

namespace ropewalk {
namespace {

const TrainedRunUse kToEvaluate = {.unmoved = "does not change the evaluation of a trained model",
                                   .keys = {"model.", "position.", "attention.", "data.", "eval.",
                                            "train.context_length", "train.device", "train.threads"}};

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
  const TrainedRun run = open_trained_run(run_directory, overrides, kToEvaluate);
  RunSetup setup = set_up(run.now, run.vocabulary ? &*run.vocabulary : nullptr);
  load_parameters(run.checkpoint, *setup.model);
  Evaluator evaluator(setup.config, *setup.dataset, *setup.workers);
  return {.scores = evaluator.run(*setup.model),
          .trained_length = trained_length(run.before),
          .changed = changed_values(run.now, run.before)};
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
      out += "beyond its positions\n";
      continue;
    }
    out += fmt::format("{:>10.4f} {:>12}", unsigned_nan(scores.loss[i]), scores.scored_tokens[i]);
    if (task) out += fmt::format(" {:>10.4f} {:>12.4f}", scores.accuracy[i], scores.exact_match[i]);
    out += "\n";
  }
  return out;
}

}  // namespace ropewalk
