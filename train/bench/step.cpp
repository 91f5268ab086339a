#include "train/bench/step.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "train/bench/machine_peak.h"
#include "train/bench/rounds.h"
#include "train/flops.h"
#include "train/memory.h"

namespace ropewalk {
namespace {

struct Usage {
  double page_faults;
  double peak_rss_bytes;
};

Usage usage() {
  rusage r = {};
  getrusage(RUSAGE_SELF, &r);
  return {static_cast<double>(r.ru_minflt), static_cast<double>(r.ru_maxrss) * 1024};
}

/// Kinds of matrix products: ops with this word in their names, and where their operations are counted.
constexpr std::pair<const char*, double FlopCount::*> kProducts[] = {{"linear", &FlopCount::linear},
                                                                     {"attention", &FlopCount::attention}};

/// Times by op of passes that carry a clock, which the timed ones do not.
std::vector<StepBench::Op> time_ops(BenchModel& model, const StepBenchRequest& request) {
  OpClock clock;
  std::map<std::string, std::array<std::vector<double>, 3>> times;
  std::map<std::string, double> laps;
  double total = 0;
  const int64_t least = std::min<int64_t>(3, request.least_steps);
  for (int64_t passes = 0; passes < least || total < request.seconds / 3; ++passes) {
    clock.clear();
    total += model.run({.clock = &clock});
    for (const OpClock::Row& row : clock.rows()) {
      laps[row.op] = static_cast<double>(row.laps);
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
    product.gflops = per_forward * (count.*flops) * bench.tokens / product.ms * 1e-6;
    product.fma_share = product.gflops * static_cast<double>(bench.threads) / bench.fma_peak_gflops;
    out.push_back(product);
  }
  return out;
}

std::string cell(double ms) {
  return ms > 0 ? fmt::format("{:.3f}", ms) : "";
}

}  // namespace

StepBench bench_step(const BenchSubject& subject, const StepBenchRequest& request) {
  BenchModel model(subject, request.pass);
  const DType dtype = dtype_of(model.config().train);
  StepBench out{.name = subject.name,
                .pass = request.pass,
                .dtype = model.config().train.dtype,
                .threads = model.config().train.threads,
                .parameters = model.parameters(),
                .tokens = model.tokens(),
                .flops_per_token = model.flops_per_token()};
  double peak = measure_fma_peak(dtype, 0.05, model.workers());
  for (int64_t i = 0; i < request.warmup; ++i) model.run();
  std::vector<double> times;
  double total = 0;
  double next_burst = request.seconds / 10;
  double faults = 0;
  while (static_cast<int64_t>(times.size()) < request.least_steps || total < request.seconds) {
    const double before = usage().page_faults;
    times.push_back(model.run());
    faults += usage().page_faults - before;
    total += times.back();
    if (total > next_burst) {
      peak = std::max(peak, measure_fma_peak(dtype, 0.005, model.workers()));
      next_burst = total + request.seconds / 10;
    }
  }
  peak = std::max(peak, measure_fma_peak(dtype, 0.05, model.workers()));
  out.steps = static_cast<int64_t>(times.size());
  out.page_faults = faults / static_cast<double>(times.size());
  const double middle = median(times);
  out.step_ms = 1e3 * middle;
  out.step_ms_least = 1e3 * *std::min_element(times.begin(), times.end());
  out.step_ms_greatest = 1e3 * *std::max_element(times.begin(), times.end());
  out.tokens_per_s = out.tokens / middle;
  out.gflops = out.tokens_per_s * out.flops_per_token * 1e-9;
  out.fma_peak_gflops = peak * 1e-9;
  out.fma_share = out.gflops / out.fma_peak_gflops;
  out.arena_bytes = static_cast<double>(model.arena_bytes());
  out.peak_rss_bytes = usage().peak_rss_bytes;
  if (out.threads == 1) {
    out.ops = time_ops(model, request);
  } else {
    BenchSubject single = subject;
    single.config.train.threads = 1;
    BenchModel alone(single, request.pass);
    for (int64_t i = 0; i < request.warmup; ++i) alone.run();
    out.ops = time_ops(alone, request);
  }
  out.products = products_of(out, model.config());
  return out;
}

std::string to_text(const StepBench& r) {
  const bool train = r.pass == BenchPass::train;
  std::string out = fmt::format(
      "{}: {} parameters, {}, {} thread{}, {:.0f} tokens a {}\n"
      "  {:.3f} ms a {} ({:.3f} to {:.3f}, {} timed): {:.0f} tokens/s\n"
      "  {:.1f} GFLOP/s of matrix products, {:.1f} % of the FMA peak of {:.1f}\n"
      "  {:.1f} page faults a {}, activations and scratch {}, peak memory {}\n\n",
      r.name, r.parameters, r.dtype, r.threads, r.threads == 1 ? "" : "s", r.tokens, train ? "step" : "forward pass",
      r.step_ms, train ? "step" : "pass", r.step_ms_least, r.step_ms_greatest, r.steps, r.tokens_per_s, r.gflops,
      100 * r.fma_share, r.fma_peak_gflops, r.page_faults, train ? "step" : "pass", bytes_text(r.arena_bytes),
      bytes_text(r.peak_rss_bytes));
  out += fmt::format("  {:<18} {:>6} {:>9} {:>9} {:>9} {:>7}\n", "ms, one thread", "calls", "forward", "backward",
                     "other", "share");
  for (const StepBench::Op& op : r.ops) {
    out += fmt::format("  {:<18} {:>6.0f} {:>9} {:>9} {:>9} {:>5.1f} %\n", op.name, op.calls, cell(op.forward_ms),
                       cell(op.backward_ms), cell(op.step_ms), 100 * op.share);
  }
  out += "\n";
  for (const StepBench::Product& p : r.products) {
    out += fmt::format("  {:<18} {:.3f} ms, {:.1f} %: {:.1f} GFLOP/s, {:.1f} % of the FMA peak\n", p.name + " products",
                       p.ms, 100 * p.share, p.gflops, 100 * p.fma_share);
  }
  return out;
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
    products.push_back(
        {{"name", p.name}, {"ms", p.ms}, {"share", p.share}, {"gflops", p.gflops}, {"fma_share", p.fma_share}});
  }
  return nlohmann::json{{"name", r.name},
                        {"pass", r.pass == BenchPass::train ? "train" : "forward"},
                        {"dtype", r.dtype},
                        {"threads", r.threads},
                        {"parameters", r.parameters},
                        {"steps", r.steps},
                        {"tokens", r.tokens},
                        {"step_ms", r.step_ms},
                        {"step_ms_least", r.step_ms_least},
                        {"step_ms_greatest", r.step_ms_greatest},
                        {"tokens_per_s", r.tokens_per_s},
                        {"flops_per_token", r.flops_per_token},
                        {"gflops", r.gflops},
                        {"fma_peak_gflops", r.fma_peak_gflops},
                        {"fma_share", r.fma_share},
                        {"page_faults_per_step", r.page_faults},
                        {"arena_bytes", r.arena_bytes},
                        {"peak_rss_bytes", r.peak_rss_bytes},
                        {"ops", ops},
                        {"products", products}}
      .dump();
}

}  // namespace ropewalk
