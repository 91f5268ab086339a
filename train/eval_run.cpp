#include "train/eval_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/text.h"
#include "train/trained_run.h"

namespace ropewalk {
RunEvaluation evaluate_run(const std::string& run_directory, const std::vector<std::string>& overrides) {
  const TrainedRun run = open_trained_run(run_directory, overrides);
  RunSetup setup = set_up(run.now, run.vocabulary ? &*run.vocabulary : nullptr);
  load_parameters(run.checkpoint, *setup.model);
  Evaluator evaluator(setup.config, *setup.dataset, *setup.workers);
  return {.scores = evaluator.run(*setup.model), .trained_length = trained_length(run.before)};
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
