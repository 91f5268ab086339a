#include "experiments/bench_command.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "experiments/sweep_plan.h"
#include "framework/message.h"
#include "train/bench/decode.h"
#include "train/bench/ops.h"
#include "train/bench/scaling.h"
#include "train/bench/step.h"
#include "train/bench/variants.h"
#include "train/text.h"

namespace ropewalk {
namespace {

/// A size, or an experiment file; of a sweep its first run.
BenchSubject subject_of(const std::string& name, const std::vector<std::string>& overrides) {
  std::error_code ignored;
  const auto sizes = bench_sizes();
  const bool size = std::any_of(sizes.begin(), sizes.end(), [&](const BenchSize& s) { return name == s.name; });
  if (size || !std::filesystem::is_regular_file(name, ignored)) return bench_size(name, overrides);
  return {.name = std::filesystem::path(name).stem().string(),
          .config = plan_sweep(name, overrides).points.front().config.config};
}

struct BenchCall {
  SubjectWith subject;
  double seconds = 0;
  bool json = false;
  const Arguments& arguments;
};

std::string step(const BenchCall& call) {
  const BenchPass pass = call.arguments.has("--forward") ? BenchPass::forward : BenchPass::train;
  const StepBench result = bench_step(call.subject({}), {.pass = pass, .seconds = call.seconds});
  return call.json ? to_json(result) + "\n" : to_text(result);
}

std::string ops(const BenchCall& call) {
  const OpBench result = bench_ops(call.subject({}), call.seconds);
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
  std::vector<ScalingTable> tables;
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!over.empty() && over != axes[i]) continue;
    message("ropewalk: bench scaling over {}\n", axes[i]);
    tables.push_back(bench_scaling(static_cast<ScalingAxis>(i), request));
    text += (text.empty() ? "" : "\n") + to_text(tables.back());
  }
  return call.json ? to_json(tables) + "\n" : text;
}

std::string variants(const BenchCall& call) {
  const std::vector<VariantTable> tables = bench_variants(call.subject, call.seconds);
  return call.json ? to_json(tables) + "\n" : to_text(tables);
}

std::string decode(const BenchCall& call) {
  const DecodeBench result = bench_decode(call.subject({}), {.seconds = call.seconds});
  return call.json ? to_json(result) + "\n" : to_text(result);
}

struct Benchmark {
  const char* name;
  std::string (*run)(const BenchCall&);
  int64_t seconds;                 ///< where --seconds is not given
  std::vector<std::string> flags;  ///< that it has besides those of all
};

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all = {{"step", step, 3, {"--forward"}},
                                             {"ops", ops, 6, {}},
                                             {"scaling", scaling, 10, {"--over", "--values"}},
                                             {"variants", variants, 10, {}},
                                             {"decode", decode, 3, {}}};
  return all;
}

}  // namespace

std::string bench_command(const Arguments& arguments) {
  const std::string& name = arguments.files.front();
  std::vector<std::string> names;
  for (const Benchmark& benchmark : benchmarks()) {
    names.emplace_back(benchmark.name);
    if (name != benchmark.name) continue;
    for (const char* flag : {"--forward", "--over", "--values"}) {
      const bool has = std::count(benchmark.flags.begin(), benchmark.flags.end(), flag) > 0;
      if (arguments.has(flag) && !has) throw UsageError(fmt::format("'ropewalk bench {}' has no {}", name, flag));
    }
    const std::string subject = arguments.files.size() > 1 ? arguments.files[1] : "M";
    const auto with = [&](const std::vector<std::string>& overrides) {
      std::vector<std::string> all = arguments.overrides;
      all.insert(all.end(), overrides.begin(), overrides.end());
      return subject_of(subject, all);
    };
    const int64_t seconds = whole_number(arguments, "--seconds", benchmark.seconds, 0, 86'400);
    return benchmark.run({.subject = with,
                          .seconds = static_cast<double>(seconds),
                          .json = arguments.has("--json"),
                          .arguments = arguments});
  }
  throw UsageError(fmt::format("unknown benchmark '{}'; they are {}", printable(name), joined(names)));
}

}  // namespace ropewalk
