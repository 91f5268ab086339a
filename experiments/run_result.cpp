#include "experiments/run_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "experiments/csv.h"
#include "experiments/run_paths.h"
#include "experiments/text_file.h"
#include "train/events.h"
#include "train/run_directory.h"
#include "train/text.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const json& member(const json& object, const char* key) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

double number(const json& value) {
  return value.is_number() ? value.get<double>() : kNan;
}

int64_t whole(const json& value) {
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

std::string text(const json& value) {
  return value.is_string() ? printable(value.get_ref<const std::string&>()) : "";
}

/// A column beside `lengths`; shorter ones are filled with NaN, so that all have one size.
std::vector<double> column(const json& value, std::size_t size) {
  std::vector<double> out;
  if (value.is_array()) std::transform(value.begin(), value.end(), std::back_inserter(out), number);
  out.resize(size, kNan);
  return out;
}

void read_evaluation(const json& summary, RunResult& result) {
  const json& final = member(summary, "final");
  result.train_loss = number(member(final, "train_loss"));
  const json& evaluation = member(final, "eval");
  result.protocol = text(member(evaluation, "protocol"));
  const json& lengths = member(evaluation, "lengths");
  if (!lengths.is_array()) return;
  for (const json& length : lengths) result.lengths.push_back(whole(length));
  const std::size_t n = result.lengths.size();
  result.loss = column(member(evaluation, "loss"), n);
  result.best_loss = column(member(member(summary, "best"), "loss"), n);
  const auto optional_column = [&](const char* key) {
    const json& values = member(evaluation, key);
    return values.is_array() && !values.empty() ? column(values, n) : std::vector<double>();
  };
  result.accuracy = optional_column("accuracy");
  result.exact_match = optional_column("exact_match");
}

void read_divergence(const json& summary, RunResult& result) {
  const json& diverged = member(summary, "diverged");
  if (!diverged.is_object()) return;
  result.divergence = {
      {whole(member(diverged, "step")), text(member(diverged, "module")), text(member(diverged, "where"))}};
}

void read_summary(const json& summary, RunResult& result) {
  static const std::set<std::string> kKnown = {"running", "finished", "interrupted", "diverged", "failed"};
  result.status = text(member(summary, "status"));
  if (kKnown.count(result.status) == 0) {
    result.status = "failed";
    result.reason = "its summary.json is damaged";
    return;
  }
  result.reason = text(member(summary, "error"));
  result.steps = whole(member(member(summary, "final"), "step"));
  result.parameters = whole(member(summary, "parameters"));
  result.wall_time = number(member(summary, "wall_time"));
  result.tokens_per_s = number(member(summary, "tokens_per_s"));
  if (member(summary, "seed").is_number_integer()) result.seed = whole(member(summary, "seed"));
  read_evaluation(summary, result);
  read_divergence(summary, result);
}

/// A run whose failure could not be written into its summary (a full disk) says so in its last event.
void read_failure(const std::string& events_file, RunResult& result) {
  std::error_code ignored;
  if (!fs::is_regular_file(events_file, ignored)) return;
  try {
    const std::vector<json> events = read_events(events_file);
    if (events.empty() || text(member(events.back(), "kind")) != "failed") return;
    result.status = "failed";
    result.reason = text(member(events.back(), "reason"));
  } catch (const std::system_error&) {
    // Unreadable events change nothing: the status stays what the other files say.
  }
}

void read_configuration(const std::string& config_file, RunResult& result) {
  const std::optional<std::string> config_text = text_of(config_file);
  if (!config_text) return;
  try {
    const Config config = parse_config_text(*config_text, config_file);
    result.train_length = trained_length(config);
    result.positions_end = config.position.encoding == "learned" || config.position.randomize_to > 0;
    for (const Option& option : option_table().options()) {
      result.configuration[option.key] = format_value(option.get(config));
    }
  } catch (const ConfigError&) {
    // A run of another version: what it came to can be shown without knowing what it was trained at.
  }
}

double at_length(const RunResult& run, const std::vector<double>& values, int64_t length) {
  const auto found = std::find(run.lengths.begin(), run.lengths.end(), length);
  const auto i = static_cast<std::size_t>(found - run.lengths.begin());
  return found != run.lengths.end() && i < values.size() ? values[i] : kNan;
}

}  // namespace

void read_run_result(const std::string& directory, RunResult& result) {
  result.directory = directory;
  const RunPaths paths{directory};
  if (result.id.empty()) result.id = run_id_of(directory);
  if (result.variant.empty()) result.variant = result.id;
  read_configuration(paths.config(), result);
  std::error_code ignored;
  if (run_is_locked(directory)) {  // a summary there is the one of its start
    result.status = "running";
    return;
  }
  const std::optional<std::string> summary = text_of(paths.summary());
  if (summary) {
    read_summary(json::parse(*summary, nullptr, false), result);
    // Written as long as the run went on; its process did not come to write what it ended as.
    if (result.status == "running") result.status = "killed";
  } else {
    result.status = fs::exists(paths.log(), ignored) ? "killed" : "waiting";
  }
  if (result.status == "killed" || result.status == "waiting") read_failure(paths.events(), result);
}

std::string divergence_text(const RunDivergence& divergence) {
  return fmt::format("step {}{}{}", divergence.step, divergence.module.empty() ? "" : ", first in " + divergence.module,
                     divergence.where.empty() ? "" : " (" + divergence.where + ")");
}

RunResult read_single_run(const std::string& directory) {
  std::error_code ignored;
  const RunPaths paths{directory};
  const bool known =
      fs::exists(paths.summary(), ignored) || fs::exists(paths.config(), ignored) || fs::exists(paths.log(), ignored);
  if (!known) {
    throw std::runtime_error(fmt::format(
        "'{}' holds neither a run (config.ini, log.h5, summary.json) nor a sweep (sweep.ini)", printable(directory)));
  }
  RunResult result;
  read_run_result(directory, result);
  return result;
}

RunResult planned_run(const SweepPlan& plan, const SweepPoint& point) {
  RunResult run;
  run.id = run_id(point);
  run.variant = point.variant;
  run.seed = point.seed;
  for (const std::string& key : plan.varying_keys) run.values.push_back(config_value(point.config.config, key));
  return run;
}

void read_sweep_run(const std::string& sweep_directory, RunResult& result) {
  const SweepPaths paths{sweep_directory};
  read_run_result(paths.run(result.id).directory.string(), result);
  if (result.status == "finished" || result.status == "diverged" || result.status == "running") return;
  const std::optional<std::string> reason = text_of(paths.failure(result.id));
  if (!reason) return;
  result.status = "failed";
  result.reason = std::string(trimmed(*reason)).substr(0, 400);
}

std::string run_id(const SweepPoint& point) {
  return fmt::format("{}-s{}", point.variant, point.seed);
}

bool is_sweep_directory(const std::string& directory) {
  std::error_code ignored;
  return fs::is_regular_file(SweepPaths{directory}.sweep_file(), ignored);
}

SweepResults read_sweep_results(const std::string& directory) {
  const std::string file = SweepPaths{directory}.sweep_file();
  const SweepPlan plan = plan_sweep(file, {});
  SweepResults out{plan.name, directory, text_of(file).value_or(""), plan.varying_keys, {}};
  for (const SweepPoint& point : plan.points) {
    RunResult run = planned_run(plan, point);
    read_sweep_run(directory, run);
    out.runs.push_back(std::move(run));
  }
  return out;
}

std::string results_csv(const SweepResults& results) {
  std::set<int64_t> lengths;
  bool task = false;
  for (const RunResult& run : results.runs) {
    lengths.insert(run.lengths.begin(), run.lengths.end());
    task = task || !run.exact_match.empty();
  }
  std::string out = "id,variant";
  for (const std::string& key : results.varying_keys) out += "," + csv_field(key);
  out += ",seed,status,steps,parameters,wall_time,tokens_per_s,train_loss,protocol";
  using Column = std::vector<double> RunResult::*;
  std::vector<std::pair<const char*, Column>> columns = {{"loss", &RunResult::loss},
                                                         {"best_loss", &RunResult::best_loss}};
  if (task)
    columns.insert(columns.end(), {{"accuracy", &RunResult::accuracy}, {"exact_match", &RunResult::exact_match}});
  for (const auto& [name, values] : columns) {
    for (const int64_t length : lengths) out += fmt::format(",{}_{}", name, length);
  }
  out += ",reason\n";
  for (const RunResult& run : results.runs) {
    out += csv_field(run.id) + "," + csv_field(run.variant);
    for (const std::string& value : run.values) out += "," + csv_field(value);
    out += fmt::format(",{},{},{},{},{},{},{},{}", run.seed, run.status, run.steps, run.parameters,
                       csv_number(run.wall_time), csv_number(run.tokens_per_s), csv_number(run.train_loss),
                       csv_field(run.protocol));
    for (const auto& [name, values] : columns) {
      for (const int64_t length : lengths) out += "," + csv_number(at_length(run, run.*values, length));
    }
    out += "," + csv_field(run.reason) + "\n";
  }
  return out;
}

}  // namespace ropewalk
