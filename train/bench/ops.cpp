#include "train/bench/ops.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "train/bench/rounds.h"

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

OpBench::Pass judge(double seconds, double flops, double bytes, double fma_peak, const MemoryRoof& memory) {
  const MemoryLevel& level = memory.level_of(bytes);
  const double least_fma = flops / fma_peak;
  const double least_memory = bytes / level.bytes_per_s;
  const double least = std::max(least_fma, least_memory);
  return {.us = 1e6 * seconds,
          .gflops = flops / seconds * 1e-9,
          .gb_per_s = bytes / seconds * 1e-9,
          .roofline = least / seconds,
          .bound = least_fma >= least_memory ? "FMA" : level.name};
}

std::string pass_text(const OpBench::Pass& p) {
  const bool product = p.gflops > 0;
  return fmt::format(" {:>9.1f} {:>6.1f} {:<7} {:>5.1f} % {:<4}", p.us, product ? p.gflops : p.gb_per_s,
                     product ? "GFLOP/s" : "GB/s", 100 * p.roofline, p.bound);
}

nlohmann::json pass_json(const OpBench::Pass& p) {
  return {{"us", p.us}, {"gflops", p.gflops}, {"gb_per_s", p.gb_per_s}, {"roofline", p.roofline}, {"bound", p.bound}};
}

}  // namespace

OpBench bench_ops(const BenchSubject& subject, double seconds) {
  // Data know the size of their vocabulary.
  const Config config = subject.random_tokens ? subject.config : set_up(subject.config).config;
  const DType dtype = dtype_of(config.train);
  OpBench out{.name = subject.name,
              .dtype = config.train.dtype,
              .tokens = micro_batch_sequences(config) * config.train.context_length};
  out.memory = measure_memory_roof(seconds / 40);
  std::vector<Trial> trials;
  for (OpCase& op : op_cases(config)) trials.push_back({.op = std::move(op)});
  double peak = measure_fma_peak(dtype, seconds / 80);
  Workspace workspace;
  std::vector<Var> leaves;
  constexpr int kRounds = 5;
  const double slice = 0.8 * seconds / static_cast<double>(kRounds * trials.size());
  for (int round = 0; round < kRounds; ++round) {
    for (Trial& trial : trials) {
      for (int i = 0; i < 2; ++i) run(trial, workspace, leaves);  // brings its operands into the cache
      trial.forward.resize(trial.forward.size() - 2);
      trial.backward.resize(trial.backward.size() - 2);
      double spent = 0;
      do {
        run(trial, workspace, leaves);
        spent += trial.forward.back() + trial.backward.back();
      } while (spent < slice);
    }
    peak = std::max(peak, measure_fma_peak(dtype, seconds / 80));
  }
  out.fma_peak_gflops = peak * 1e-9;
  for (const Trial& trial : trials) {
    const OpCase& op = trial.op;
    out.rows.push_back(
        {.op = op.op,
         .variant = op.variant,
         .shape = op.shape,
         .forward = judge(median(trial.forward), op.forward_flops, op.forward_bytes, peak, out.memory),
         .backward = judge(median(trial.backward), 2 * op.forward_flops, op.backward_bytes, peak, out.memory)});
  }
  return out;
}

std::string to_text(const OpBench& r) {
  std::string out = fmt::format("{}: ops of a micro-batch of {} tokens, {}, one thread\nFMA peak {:.1f} GFLOP/s; read",
                                r.name, r.tokens, r.dtype, r.fma_peak_gflops);
  for (const MemoryLevel& level : r.memory.levels) {
    out += fmt::format(" {} {:.0f}", level.name, level.bytes_per_s * 1e-9);
  }
  out += fmt::format(" GB/s\n\n{:<34} {:<22} {:>9} {:>14} {:>12}    {:>9} {:>14} {:>12}\n", "op", "shape", "forward us",
                     "", "of roofline", "backward us", "", "of roofline");
  for (const OpBench::Row& row : r.rows) {
    const std::string name = row.variant.empty() ? row.op : row.op + ": " + row.variant;
    out += fmt::format("{:<34} {:<22}{}   {}\n", name, row.shape, pass_text(row.forward), pass_text(row.backward));
  }
  return out;
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
  return nlohmann::json{{"name", r.name},          {"dtype", r.dtype},
                        {"tokens", r.tokens},      {"fma_peak_gflops", r.fma_peak_gflops},
                        {"read_gb_per_s", memory}, {"rows", rows}}
      .dump();
}

}  // namespace ropewalk
