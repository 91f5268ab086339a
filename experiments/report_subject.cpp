#include "experiments/report_subject.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "experiments/run_paths.h"
#include "experiments/text_file.h"
#include "train/log_schema.h"
#include "train/text.h"

namespace ropewalk {
namespace {

LogCadence cadence_of(const RunResult& run) {
  const auto every = [&](const char* key) {
    const auto found = run.configuration.find(key);
    return found == run.configuration.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10);
  };
  return {every("log.every"), every("log.layers_every"), every("log.attention_every")};
}

/// The log of a run that began, or why it cannot be read.
std::optional<LogDigest> read_digest(const DigestBudget& budget, RunResult& run) {
  if (run.status == "waiting") return std::nullopt;
  const std::string log = RunPaths{run.directory}.log();
  std::error_code ignored;
  if (!std::filesystem::exists(log, ignored)) {
    if (run.reason.empty()) run.log_problem = "has no log.h5";  // else it failed before it made one
    return std::nullopt;
  }
  try {
    LogDigest digest = digest_log(log, budget, cadence_of(run));
    run.log_problem = joined(digest.damage, "; ");
    return digest;
  } catch (const LogError& error) {
    run.log_problem = error.what();
    return std::nullopt;
  }
}

/// The runs of one directory.
struct Part {
  std::string name;
  std::string config;
  std::vector<RunResult> runs;
  bool is_sweep = false;
};

Part read_part(const std::string& directory) {
  if (!is_sweep_directory(directory)) {
    RunResult run = read_single_run(directory);
    return {run.id, text_of(RunPaths{directory}.config()).value_or(""), {run}, false};
  }
  SweepResults sweep = read_sweep_results(directory);
  for (RunResult& run : sweep.runs) {
    if (!run.configuration.empty()) continue;
    for (std::size_t i = 0; i < sweep.varying_keys.size() && i < run.values.size(); ++i) {
      run.configuration[sweep.varying_keys[i]] = run.values[i];
    }
  }
  return {sweep.name, sweep.text, std::move(sweep.runs), true};
}

}  // namespace

ReportSubject read_report_subject(std::span<const std::string> directories) {
  std::vector<Part> parts;
  std::map<std::string, std::size_t> named;
  for (const std::string& directory : directories) {
    parts.push_back(read_part(directory));
    ++named[parts.back().name];
  }
  ReportSubject subject;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    // Two of one name would pass for more seeds of one variant.
    const std::string label = named[part.name] > 1 ? directories[i] : part.name;
    for (RunResult& run : part.runs) {
      if (parts.size() > 1) {
        run.variant = part.is_sweep ? label + "/" + run.variant : label;
        run.id = part.is_sweep ? label + "/" + run.id : label;
      }
      subject.runs.push_back(std::move(run));
    }
  }
  subject.title = parts.size() == 1 ? parts.front().name : joined(directories);
  if (parts.size() == 1) subject.config = parts.front().config;

  const DigestBudget budget = digest_budget(subject.runs.size());
  std::map<std::string, std::vector<std::size_t>> by_variant;
  for (std::size_t i = 0; i < subject.runs.size(); ++i) {
    subject.logs.push_back(read_digest(budget, subject.runs[i]));
    by_variant[subject.runs[i].variant].push_back(i);
  }
  for (const auto& [variant, runs] : by_variant) {
    std::vector<LogDigest*> digests;
    for (const std::size_t i : runs) {
      if (subject.logs[i]) digests.push_back(&*subject.logs[i]);
    }
    align(digests);
  }
  return subject;
}

}  // namespace ropewalk
