#include "train/bench/step.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "train/bench/bench_json.h"
#include "train/bench/machine_peak.h"
#include "train/bench/rounds.h"
#include "train/evaluation.h"
#include "train/flops.h"
#include "train/memory.h"

namespace ropewalk {
namespace {

rusage usage() {
  rusage r = {};
  getrusage(RUSAGE_SELF, &r);
  return r;
}

const char* pass_name(BenchPass pass) {
  return pass == BenchPass::train ? "step" : "pass";
}

/// Passes that no one times: at least one, three where they are short.
void warm_up(BenchModel& model, const StepBenchRequest& request) {
  constexpr int kPasses = 3;
  double total = 0;
  for (int i = 0; i < kPasses && (i == 0 || total < request.seconds / 3); ++i) total += model.run();
}

/// Kinds of matrix products: ops with this word in their names, and where their operations are counted.
constexpr std::pair<const char*, double FlopCount::*> kProducts[] = {{"linear", &FlopCount::linear},
                                                                     {"attention", &FlopCount::attention}};

/// Times by op of passes that carry a clock, which the timed ones do not.
std::vector<StepBench::Op> time_ops(BenchModel& model, const StepBenchRequest& request) {
  OpClock clock;
  std::map<std::string, std::array<std::vector<double>, 3>> times;
  std::map<std::string, int64_t> laps;
  double total = 0;
  while (total == 0 || total < request.seconds / 3) {
    clock.clear();
    total += model.run({.clock = &clock});
    for (const OpClock::Row& row : clock.rows()) {
      laps[row.op] = row.laps;
      for (std::size_t pass = 0; pass < 3; ++pass) times[row.op][pass].push_back(row.seconds[pass]);
    }
  }
  std::vector<StepBench::Op> ops;
  double sum = 0;
  for (const auto& [name, seconds] : times) {
    StepBench::Op op{.name = name,
                     .calls = laps[name],
                     .forward_ms = 1e3 * median(seconds[0]),
                     .backward_ms = 1e3 * median(seconds[1]),
                     .step_ms = 1e3 * median(seconds[2])};
    sum += op.forward_ms + op.backward_ms + op.step_ms;
    ops.push_back(op);
  }
  for (StepBench::Op& op : ops) op.share = (op.forward_ms + op.backward_ms + op.step_ms) / sum;
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return ops;
}

std::vector<StepBench::Product> products_of(const StepBench& bench, const Config& config) {
  const FlopCount count = count_flops(config, training_shape(config));
  const double per_forward = bench.pass == BenchPass::train ? count.training() / count.forward : 1;
  std::vector<StepBench::Product> out;
  for (const auto& [name, flops] : kProducts) {
    StepBench::Product product{.name = name};
    for (const StepBench::Op& op : bench.ops) {
      if (op.name.find(name) == std::string::npos) continue;
      product.ms += op.forward_ms + op.backward_ms;
      product.share += op.share;
    }
    if (product.ms == 0) continue;
    product.gflops = per_forward * (count.*flops) * static_cast<double>(bench.tokens) / product.ms * 1e-6;
    product.fma_share = product.gflops * static_cast<double>(bench.fma_threads) / bench.fma_peak_gflops;
    out.push_back(product);
  }
  return out;
}

constexpr std::chrono::seconds kSayEvery{10};

/// share_mark() where no column has to be kept.
std::string mark_text(double share) {
  return credible_share(share) ? "" : "?";
}

std::string cell(double ms) {
  return ms > 0 ? fmt::format("{:.3f}", ms) : "";
}

}  // namespace

StepBench bench_step(const BenchSubject& subject, const StepBenchRequest& request) {
  using Time = std::chrono::steady_clock;
  const auto say = [&](const std::string& what) {
    if (request.say) request.say(what);
  };
  BenchModel model(subject, request.pass);
  const DType dtype = dtype_of(model.config().train);
  StepBench out{.name = subject.name,
                .config = model.config(),
                .overridden = subject.overridden,
                .pass = request.pass,
                .dtype = model.config().train.dtype,
                .threads = model.config().train.threads,
                .parameters = model.parameters(),
                .tokens = model.tokens(),
                .flops_per_token = model.flops_per_token(),
                .fma_threads = fma_threads(model.config().train.threads)};
  say("warming up");
  double peak = measure_fma_peak(dtype, 0.05, model.workers());
  warm_up(model, request);
  say(fmt::format("timing each {} for {} s", pass_name(request.pass), request.seconds));
  std::vector<double> times;
  double total = 0;
  double next_burst = request.seconds / 10;
  Time::time_point said = Time::now();
  const auto goes_on = [&] {
    if (times.empty() || total < request.seconds) return true;
    return static_cast<int64_t>(times.size()) < kEnoughPasses && total < 2 * request.seconds;
  };
  while (goes_on()) {
    const auto before = usage().ru_minflt;
    times.push_back(model.run());
    out.page_faults += usage().ru_minflt - before;
    total += times.back();
    if (total > next_burst) {
      peak = std::max(peak, measure_fma_peak(dtype, 0.005, model.workers()));
      next_burst = total + request.seconds / 10;
    }
    if (Time::now() - said > kSayEvery) {
      said = Time::now();
      say(fmt::format("{} timed, {:.0f} of {} s", times.size(), total, request.seconds));
    }
  }
  peak = std::max(peak, measure_fma_peak(dtype, 0.05, model.workers()));
  out.steps = static_cast<int64_t>(times.size());
  for (double& seconds : times) seconds *= 1e3;
  out.step_ms = spread_of(std::move(times));
  out.tokens_per_s = 1e3 * static_cast<double>(out.tokens) / out.step_ms.median;
  out.gflops = out.tokens_per_s * out.flops_per_token * 1e-9;
  out.fma_peak_gflops = peak * 1e-9;
  out.fma_share = out.gflops / out.fma_peak_gflops;
  out.arena_bytes = static_cast<int64_t>(model.arena_bytes());
  out.peak_rss_bytes = static_cast<int64_t>(usage().ru_maxrss) * 1024;
  say("timing the ops, on one thread");
  if (out.threads == 1) {
    out.ops = time_ops(model, request);
  } else {
    BenchSubject single = subject;
    single.config.train.threads = 1;
    BenchModel alone(single, request.pass);
    warm_up(alone, request);
    out.ops = time_ops(alone, request);
  }
  out.products = products_of(out, model.config());
  return out;
}

std::string to_text(const StepBench& r) {
  const bool train = r.pass == BenchPass::train;
  const TrainConfig& t = r.config.train;
  const char* pass = pass_name(r.pass);
  const int64_t sequences = t.batch_size * t.accumulate;
  const int64_t at_once =
      train ? plan_batch(r.config).micro_batch : std::min(sequences, evaluated_at_once(t.context_length));
  std::string out = fmt::format(
      "{}: {} parameters, {}, {}, {} thread{}\n"
      "  {} tokens a {}: {} sequences of {}, {} at a time\n"
      "  {:.3f} ms a {} (half of them {}, all {:.3f} to {:.3f}; {} timed): {:.0f} tokens/s\n",
      r.name, r.parameters, r.config.position.encoding, r.dtype, r.threads, r.threads == 1 ? "" : "s", r.tokens,
      train ? "step" : "forward pass", sequences, t.context_length, at_once, r.step_ms.median, pass,
      quartiles_text(r.step_ms, 3), r.step_ms.least, r.step_ms.greatest, r.steps, r.tokens_per_s);
  if (r.steps < kEnoughPasses) {
    out += fmt::format("  only {} timed: a {} is long for the time given; --seconds {:.0f} would time {}\n", r.steps,
                       pass, std::ceil(1e-3 * r.step_ms.median * kEnoughPasses), kEnoughPasses);
  }
  if (r.step_ms.noisy()) {
    out += fmt::format("  noisy: {}, so other load than this decides the figures\n", kNoiseRule);
  }
  out += fmt::format("  {:.1f} GFLOP/s of matrix products, {:.1f} %{} of the FMA peak of {:.1f}\n", r.gflops,
                     100 * r.fma_share, mark_text(r.fma_share), r.fma_peak_gflops);
  if (r.fma_threads < r.threads) {
    out += fmt::format("  the peak is that of {} core{}, which is all that the {} threads may use\n", r.fma_threads,
                       r.fma_threads == 1 ? "" : "s", r.threads);
  }
  out += fmt::format("  {:.1f} page faults a {}, activations and scratch {}, peak memory {}\n\n",
                     static_cast<double>(r.page_faults) / static_cast<double>(r.steps), pass,
                     bytes_text(static_cast<double>(r.arena_bytes)), bytes_text(static_cast<double>(r.peak_rss_bytes)));
  out += fmt::format("  {:<18} {:>6} {:>9} {:>9} {:>9} {:>7}\n", "ms, one thread", "calls", "forward", "backward",
                     "other", "share");
  for (const StepBench::Op& op : r.ops) {
    out += fmt::format("  {:<18} {:>6} {:>9} {:>9} {:>9} {:>5.1f} %\n", op.name, op.calls, cell(op.forward_ms),
                       cell(op.backward_ms), cell(op.step_ms), 100 * op.share);
  }
  out += "\n";
  bool credible = credible_share(r.fma_share);
  for (const StepBench::Product& p : r.products) {
    out += fmt::format("  {:<18} {:.3f} ms, {:.1f} %: {:.1f} GFLOP/s, {:.1f} %{} of the FMA peak\n",
                       p.name + " products", p.ms, 100 * p.share, p.gflops, 100 * p.fma_share, mark_text(p.fma_share));
    credible = credible && credible_share(p.fma_share);
  }
  return out + (credible ? "" : kShareRule);
}

std::string to_json(const StepBench& r) {
  nlohmann::json ops = nlohmann::json::array();
  for (const StepBench::Op& op : r.ops) {
    ops.push_back({{"op", op.name},
                   {"calls", op.calls},
                   {"forward_ms", op.forward_ms},
                   {"backward_ms", op.backward_ms},
                   {"step_ms", op.step_ms},
                   {"share", op.share}});
  }
  nlohmann::json products = nlohmann::json::array();
  for (const StepBench::Product& p : r.products) {
    products.push_back({{"name", p.name},
                        {"ms", p.ms},
                        {"share", p.share},
                        {"gflops", p.gflops},
                        {"fma_share", p.fma_share},
                        {"fma_share_reliable", credible_share(p.fma_share)}});
  }
  nlohmann::json out = {{"name", r.name},
                        {"pass", r.pass == BenchPass::train ? "train" : "forward"},
                        {"dtype", r.dtype},
                        {"threads", r.threads},
                        {"parameters", r.parameters},
                        {"steps", r.steps},
                        {"tokens", r.tokens},
                        {"tokens_per_s", r.tokens_per_s},
                        {"flops_per_token", r.flops_per_token},
                        {"gflops", r.gflops},
                        {"fma_peak_gflops", r.fma_peak_gflops},
                        {"fma_threads", r.fma_threads},
                        {"fma_share", r.fma_share},
                        {"fma_share_reliable", credible_share(r.fma_share)},
                        {"page_faults", r.page_faults},
                        {"page_faults_per_step", static_cast<double>(r.page_faults) / static_cast<double>(r.steps)},
                        {"arena_bytes", r.arena_bytes},
                        {"peak_rss_bytes", r.peak_rss_bytes},
                        {"ops", ops},
                        {"products", products}};
  put_spread(out, "step_ms", r.step_ms);
  put_settings(out, r.config, r.overridden);
  return out.dump();
}

}  // namespace ropewalk
