#include "train/summary.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "train/events.h"
#include "train/run_directory.h"

namespace ropewalk {
namespace {

nlohmann::json numbers(const std::vector<double>& values) {
  nlohmann::json out = nlohmann::json::array();
  for (const double value : values) out.push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
  return out;
}

}  // namespace

void write_run_summary(const std::string& directory, const Config& config, int64_t parameters, LogStatus status,
                       const RunState& state, const std::vector<int64_t>& lengths, double tokens_per_s,
                       const std::string& error) {
  nlohmann::json eval = nullptr;
  if (!state.last_loss.empty()) {
    eval = {{"protocol", protocol_name(config)},
            {"train_length", trained_length(config)},
            {"lengths", lengths},
            {"loss", numbers(state.last_loss)}};
    if (is_task(config)) {
      eval["accuracy"] = numbers(state.last_accuracy);
      eval["exact_match"] = numbers(state.last_exact_match);
    }
  }
  const auto finite = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); };
  nlohmann::json summary = {{"run_id", run_id_of(directory)},
                            {"status", to_string(status)},
                            {"steps", config.train.steps},
                            {"seed", config.train.seed},
                            {"parameters", parameters},
                            {"tokens", state.tokens},
                            {"wall_time", state.wall_time},
                            {"tokens_per_s", finite(tokens_per_s)},
                            {"final", {{"step", state.step}, {"train_loss", finite(state.train_loss)}, {"eval", eval}}},
                            {"best", {{"loss", numbers(state.best_loss)}}}};
  if (!config.train.from.empty()) summary["from"] = {{"run", config.train.from}};
  if (!config.train.from.empty() && state.from_step >= 0) summary["from"]["step"] = state.from_step;
  if (const std::optional<Divergence>& divergence = state.divergence) {
    summary["diverged"] = {{"step", divergence->step},
                           {"module", divergence->module},
                           {"where", divergence->in_gradient ? "gradient" : "value"}};
  }
  if (!error.empty()) summary["error"] = error;
  write_summary(summary_in(directory), summary);
}

}  // namespace ropewalk
