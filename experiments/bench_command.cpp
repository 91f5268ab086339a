#include "experiments/bench_command.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "experiments/sweep_plan.h"
#include "framework/message.h"
#include "train/bench/decode.h"
#include "train/bench/ops.h"
#include "train/bench/recall.h"
#include "train/bench/scaling.h"
#include "train/bench/step.h"
#include "train/bench/variants.h"
#include "train/options.h"
#include "train/text.h"

namespace ropewalk {
namespace {

/// A size, or an experiment file; of a sweep its first run.
BenchSubject subject_of(const std::string& name, const std::vector<std::string>& overrides) {
  std::error_code ignored;
  const auto sizes = bench_sizes();
  const bool size = std::any_of(sizes.begin(), sizes.end(), [&](const BenchSize& s) { return name == s.name; });
  if (size || !std::filesystem::is_regular_file(name, ignored)) return bench_size(name, overrides);
  SweepPlan plan = plan_sweep(name, overrides);
  return {.name = std::filesystem::path(name).stem().string(),
          .config = std::move(plan.points.front().config.config),
          .warnings = std::move(plan.warnings)};
}

/// The keys of the configuration among these words.
std::vector<std::string> keys_of(const std::vector<std::string>& overrides) {
  std::vector<std::string> keys;
  for (const std::string& word : overrides) {
    std::string key(trimmed(std::string_view(word).substr(0, word.find('='))));
    if (option_table().find(key) != nullptr) keys.push_back(std::move(key));
  }
  return keys;
}

/// Warnings for words about what no benchmark does. A file may say such things; who says them here expects an effect.
std::vector<std::string> idle_words(const std::vector<std::string>& keys) {
  constexpr const char* kIdle[] = {
      "eval.", "log.", "probe.", "train.checkpoint_every", "train.keep_checkpoints", "train.on_divergence"};
  std::vector<std::string> warnings;
  for (const std::string& key : keys) {
    const bool idle =
        std::any_of(std::begin(kIdle), std::end(kIdle), [&](const char* k) { return key.starts_with(k); });
    if (!idle) continue;
    warnings.push_back(
        fmt::format("command line: warning: {} changes nothing: 'ropewalk bench' neither evaluates, logs, probes nor "
                    "writes checkpoints",
                    key));
  }
  return warnings;
}

struct BenchCall {
  std::string name;  ///< of the benchmark
  SubjectWith subject;
  double seconds = 0;
  bool json = false;
  const Arguments& arguments;

  BenchSay say() const {
    return [this](const std::string& what) { message("ropewalk: bench {}: {}\n", name, what); };
  }
};

std::string step(const BenchCall& call) {
  const BenchPass pass = call.arguments.has("--forward") ? BenchPass::forward : BenchPass::train;
  const StepBench result = bench_step(call.subject({}), {.pass = pass, .seconds = call.seconds, .say = call.say()});
  return call.json ? to_json(result) + "\n" : to_text(result);
}

std::string ops(const BenchCall& call) {
  const OpBench result =
      bench_ops(call.subject({}), {.seconds = call.seconds, .only = call.arguments.value("--only"), .say = call.say()});
  return call.json ? to_json(result) + "\n" : to_text(result);
}

/// "128,256" as numbers.
std::vector<int64_t> numbers(const std::string& flag, const std::string& list) {
  std::vector<int64_t> out;
  const char* at = list.data();
  const char* end = at + list.size();
  while (true) {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1 || (rest != end && *rest != ',')) {
      throw UsageError(
          fmt::format("{} '{}': a list of positive whole numbers is wanted, as 128,256", flag, printable(list)));
    }
    out.push_back(value);
    if (rest == end) return out;
    at = rest + 1;
  }
}

std::string scaling(const BenchCall& call) {
  const std::string over = call.arguments.value("--over");
  const std::string list = call.arguments.value("--values");
  const std::vector<std::string> axes(std::begin(kScalingAxes), std::end(kScalingAxes));
  if (!over.empty() && std::count(axes.begin(), axes.end(), over) == 0) {
    throw UsageError(fmt::format("--over '{}': the axes are {}", printable(over), joined(axes)));
  }
  if (!list.empty() && over.empty()) throw UsageError("--values needs --over: the values of one axis");
  ScalingRequest request{.subject = call.subject, .seconds = call.seconds};
  if (!list.empty()) request.values = numbers("--values", list);
  std::vector<ScalingAxis> chosen;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (over.empty() || over == axes[i]) chosen.push_back(static_cast<ScalingAxis>(i));
  }
  for (const ScalingAxis axis : chosen) check_scaling(axis, request);
  std::vector<ScalingTable> tables;
  std::string text;
  for (const ScalingAxis axis : chosen) {
    call.say()(fmt::format("over {}", axes[static_cast<std::size_t>(axis)]));
    tables.push_back(bench_scaling(axis, request));
    text += (text.empty() ? "" : "\n") + to_text(tables.back());
  }
  return call.json ? to_json(tables) + "\n" : text;
}

std::string variants(const BenchCall& call) {
  const std::vector<VariantTable> tables = bench_variants(call.subject, call.seconds, call.say());
  return call.json ? to_json(tables) + "\n" : to_text(tables);
}

std::string decode(const BenchCall& call) {
  const DecodeBench result = bench_decode(call.subject({}), {.seconds = call.seconds});
  return call.json ? to_json(result) + "\n" : to_text(result);
}

/// What the configuration's checks say of the subject.
std::vector<std::string> warnings_of_subject(const BenchCall& call) {
  return call.subject({}).warnings;
}

/// What they say of it under every position encoding: a key that one of them reads is not idle among variants.
std::vector<std::string> warnings_of_variants(const BenchCall& call) {
  std::vector<std::string> common = call.subject({}).warnings;
  const auto subject = [&](const std::vector<std::string>& more) { return call.subject(more); };
  for (const std::string& encoding : legal_encodings(subject)) {
    if (common.empty()) break;
    const std::vector<std::string> own = call.subject({"position.encoding=" + encoding}).warnings;
    std::erase_if(common, [&](const std::string& w) { return std::find(own.begin(), own.end(), w) == own.end(); });
  }
  return common;
}

std::string recall(const BenchCall& call) {
  const RecallBench result = bench_recall(call.subject({}));
  return call.json ? to_json(result) + "\n" : to_text(result);
}

struct Benchmark {
  const char* name;
  std::string (*run)(const BenchCall&);
  double seconds;                  ///< where --seconds is not given
  std::vector<std::string> flags;  ///< that it has besides those of all
  std::vector<std::string> (*warnings)(const BenchCall&) = warnings_of_subject;
};

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all = {{"step", step, 3, {"--forward"}},
                                             {"ops", ops, 6, {"--only"}},
                                             {"scaling", scaling, 10, {"--over", "--values"}},
                                             {"variants", variants, 10, {}, warnings_of_variants},
                                             {"decode", decode, 3, {}},
                                             {"recall", recall, 0, {}}};
  return all;
}

}  // namespace

std::string bench_command(const Arguments& arguments) {
  const std::string& name = arguments.files.front();
  std::vector<std::string> names;
  for (const Benchmark& benchmark : benchmarks()) {
    names.emplace_back(benchmark.name);
    if (name != benchmark.name) continue;
    for (const char* flag : {"--forward", "--only", "--over", "--values"}) {
      const bool has = std::count(benchmark.flags.begin(), benchmark.flags.end(), flag) > 0;
      if (arguments.has(flag) && !has) throw UsageError(fmt::format("'ropewalk bench {}' has no {}", name, flag));
    }
    const std::string subject = arguments.files.size() > 1 ? arguments.files[1] : "M";
    const std::vector<std::string> keys = keys_of(arguments.overrides);
    const auto with = [&](const std::vector<std::string>& overrides) {
      std::vector<std::string> all = arguments.overrides;
      all.insert(all.end(), overrides.begin(), overrides.end());
      BenchSubject out = subject_of(subject, all);
      out.overridden = keys;
      return out;
    };
    const BenchCall call{.name = name,
                         .subject = with,
                         .seconds = real_number(arguments, "--seconds", benchmark.seconds, 0, 86'400),
                         .json = arguments.has("--json"),
                         .arguments = arguments};
    const std::vector<std::string> warnings = benchmark.warnings(call);  // refuses what makes no model first
    for (const std::string& warning : idle_words(keys)) message("{}\n", warning);
    for (const std::string& warning : warnings) message("{}\n", warning);
    return benchmark.run(call);
  }
  throw UsageError(fmt::format("unknown benchmark '{}'; they are {}", printable(name), joined(names)));
}

}  // namespace ropewalk
