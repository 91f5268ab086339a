#include "train/bench/ops.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "train/bench/bench_json.h"
#include "train/config_error.h"
#include "train/text.h"

namespace ropewalk {
namespace {

/// A case with what it has taken so far.
struct Trial {
  OpCase op;
  Tensor cotangent;
  std::vector<double> forward, backward;
};

/// Once forward and once backward, on a tape of its own.
void run(Trial& trial, Workspace& workspace, std::vector<Var>& leaves) {
  Tape tape(workspace, Mode::train);
  leaves.clear();
  for (const Tensor& input : trial.op.inputs) leaves.push_back(tape.leaf(input));
  OpClock clock;
  const auto lap = [&](std::vector<double>& times, OpClock::Pass pass) {
    double sum = 0;
    for (const OpClock::Row& row : clock.rows()) sum += row.of(pass);
    times.push_back(sum);
    clock.clear();
  };
  tape.time_ops(&clock);
  clock.start();
  const Var y = trial.op.run(tape, leaves);
  lap(trial.forward, OpClock::Pass::forward);
  if (trial.cotangent.bytes == nullptr) {
    trial.cotangent = Tensor::zeros(y.shape(), y.dtype());
    for (int64_t i = 0; i < trial.cotangent.elements(); ++i) trial.cotangent.set(i, 1.0 / static_cast<double>(i + 1));
  }
  tape.seed(y, trial.cotangent);
  clock.start();
  tape.backward();
  lap(trial.backward, OpClock::Pass::backward);
}

/// How an op stands in a table, and what a choice of ops is compared with.
std::string case_name(const std::string& op, const std::string& variant) {
  return variant.empty() ? op : op + ": " + variant;
}

std::vector<Trial> chosen_cases(const Config& config, const std::string& only) {
  std::vector<Trial> out;
  std::vector<std::string> ops;
  for (OpCase& op : op_cases(config)) {
    if (std::find(ops.begin(), ops.end(), op.op) == ops.end()) ops.push_back(op.op);
    // Not what merely stands in a variant: "attention" is to leave out "linear: attention output".
    if (case_name(op.op, op.variant).find(only) < op.op.size()) out.push_back({.op = std::move(op)});
  }
  if (out.empty()) {
    throw ConfigError(
        {fmt::format("bench ops: no op has '{}' in its name; the ops are {}", printable(only), joined(ops))});
  }
  return out;
}

std::string pass_text(const OpBench::Pass& p) {
  const bool product = p.gflops > 0;
  return fmt::format(" {:>9.1f}{} {:>6.1f} {:<7} {:>6.1f} %{} {:<4}", p.us.median, p.us.noisy() ? '~' : ' ',
                     product ? p.gflops : p.gb_per_s, product ? "GFLOP/s" : "GB/s", 100 * p.roofline,
                     share_mark(p.roofline), p.bound);
}

nlohmann::json pass_json(const OpBench::Pass& p) {
  nlohmann::json out = {{"gflops", p.gflops},
                        {"gb_per_s", p.gb_per_s},
                        {"roofline", p.roofline},
                        {"roofline_reliable", credible_share(p.roofline)},
                        {"bound", p.bound}};
  put_spread(out, "us", p.us);
  return out;
}

}  // namespace

OpBench::Pass judge(const Spread& seconds, double flops, double bytes, double fma_peak, const MemoryRoof& memory) {
  const MemoryLevel& level = memory.level_of(bytes);
  const double least_fma = flops / fma_peak;
  const double least_memory = bytes / level.bytes_per_s;
  const double least = std::max(least_fma, least_memory);
  return {.us = {.median = 1e6 * seconds.median,
                 .lower = 1e6 * seconds.lower,
                 .upper = 1e6 * seconds.upper,
                 .least = 1e6 * seconds.least,
                 .greatest = 1e6 * seconds.greatest},
          .gflops = flops / seconds.median * 1e-9,
          .gb_per_s = bytes / seconds.median * 1e-9,
          .roofline = least / seconds.median,
          .bound = least_fma >= least_memory ? "FMA" : level.name};
}

OpBench bench_ops(const BenchSubject& subject, const OpBenchRequest& request) {
  using Time = std::chrono::steady_clock;
  const auto say = [&](const std::string& what) {
    if (request.say) request.say(what);
  };
  // Data know the size of their vocabulary.
  const Config config = subject.random_tokens ? subject.config : set_up(subject.config).config;
  const DType dtype = dtype_of(config.train);
  const double seconds = request.seconds;
  OpBench out{.name = subject.name,
              .config = config,
              .overridden = subject.overridden,
              .dtype = config.train.dtype,
              .tokens = micro_batch_sequences(config) * config.train.context_length};
  std::vector<Trial> trials = chosen_cases(config, request.only);
  say("measuring the machine");
  MemoryProbe memory;
  double peak = 0;
  const auto measure_machine = [&] {
    memory.measure(seconds / 240);
    peak = std::max(peak, measure_fma_peak(dtype, seconds / 80));
  };
  measure_machine();
  Workspace workspace;
  std::vector<Var> leaves;
  constexpr int kRounds = 5;
  const double slice = 0.8 * seconds / static_cast<double>(kRounds * trials.size());
  const Time::time_point start = Time::now();
  for (int round = 0; round < kRounds; ++round) {
    // Where ops are long, fewer rounds have to do.
    if (round > 0 && std::chrono::duration<double>(Time::now() - start).count() > 2 * seconds) break;
    say(fmt::format("round {} of {}, {} cases", round + 1, kRounds, trials.size()));
    for (Trial& trial : trials) {
      double spent = 0;
      for (int i = 0; i < 2 && spent <= slice; ++i) {  // brings its operands into the cache
        run(trial, workspace, leaves);
        spent += trial.forward.back() + trial.backward.back();
        trial.forward.pop_back();
        trial.backward.pop_back();
      }
      spent = 0;
      do {
        run(trial, workspace, leaves);
        spent += trial.forward.back() + trial.backward.back();
      } while (spent < slice);
    }
    measure_machine();
  }
  out.memory = memory.roof();
  out.fma_peak_gflops = peak * 1e-9;
  for (const Trial& trial : trials) {
    const OpCase& op = trial.op;
    const auto pass = [&](const std::vector<double>& times, double products, double bytes) {
      return judge(spread_of(times), products * op.forward_flops, bytes, peak, out.memory);
    };
    out.rows.push_back({.op = op.op,
                        .variant = op.variant,
                        .shape = op.shape,
                        .forward = pass(trial.forward, op.gradient_in_forward ? 3 : 1, op.forward_bytes),
                        .backward = pass(trial.backward, op.gradient_in_forward ? 0 : 2, op.backward_bytes)});
  }
  return out;
}

std::string to_text(const OpBench& r) {
  std::string out = fmt::format("{}: ops of a micro-batch of {} tokens, {}, one thread\nFMA peak {:.1f} GFLOP/s; read",
                                r.name, r.tokens, r.dtype, r.fma_peak_gflops);
  for (const MemoryLevel& level : r.memory.levels) {
    out += fmt::format(" {} {:.0f}", level.name, level.bytes_per_s * 1e-9);
  }
  out += fmt::format(" GB/s\n\n{:<34} {:<22} {:>10} {:>15} {:>14}    {:>11} {:>14} {:>14}\n", "op", "shape",
                     "forward us", "", "of roofline", "backward us", "", "of roofline");
  bool credible = true;
  bool noisy = false;
  for (const OpBench::Row& row : r.rows) {
    out += fmt::format("{:<34} {:<22}{}   {}\n", case_name(row.op, row.variant), row.shape, pass_text(row.forward),
                       pass_text(row.backward));
    for (const OpBench::Pass& pass : {row.forward, row.backward}) {
      credible = credible && credible_share(pass.roofline);
      noisy = noisy || pass.us.noisy();
    }
  }
  if (noisy) out += fmt::format("~: noisy, {}\n", kNoiseRule);
  return out + (credible ? "" : kShareRule);
}

std::string to_json(const OpBench& r) {
  nlohmann::json rows = nlohmann::json::array();
  for (const OpBench::Row& row : r.rows) {
    rows.push_back({{"op", row.op},
                    {"variant", row.variant},
                    {"shape", row.shape},
                    {"forward", pass_json(row.forward)},
                    {"backward", pass_json(row.backward)}});
  }
  nlohmann::json memory = nlohmann::json::object();
  for (const MemoryLevel& level : r.memory.levels) memory[level.name] = level.bytes_per_s * 1e-9;
  nlohmann::json out = {{"name", r.name},          {"dtype", r.dtype},
                        {"tokens", r.tokens},      {"fma_peak_gflops", r.fma_peak_gflops},
                        {"read_gb_per_s", memory}, {"rows", rows}};
  put_settings(out, r.config, r.overridden);
  return out.dump();
}

}  // namespace ropewalk
