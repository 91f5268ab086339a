#include "train/bench_step.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/random.h"
#include "framework/error.h"
#include "framework/random.h"
#include "train/config_error.h"
#include "train/flops.h"
#include "train/memory.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace ropewalk {
namespace {

struct Size {
  const char* name;
  int64_t d_model, n_layers, n_heads, context, batch, vocab;
};
constexpr Size kSizes[] = {{"XS", 32, 2, 2, 32, 8, 65},
                           {"S", 64, 4, 4, 64, 32, 65},
                           {"M", 128, 6, 4, 128, 32, 256},
                           {"L", 384, 6, 6, 256, 16, 256}};

/// Uniformly random tokens: nothing to learn, nothing to read.
class NoiseData : public Dataset {
 public:
  explicit NoiseData(int64_t vocab_size) : tokenizer_(id_tokenizer(vocab_size)) {}

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const override {
    const RandomKey key{seed, Stream::probe_inputs, static_cast<uint32_t>(step), static_cast<uint32_t>(index)};
    const auto draw = [&](std::size_t i) {
      return static_cast<int32_t>(random_uniform(key, i) * static_cast<double>(tokenizer_.vocab_size));
    };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = draw(i);
      targets[i] = draw(i + 1);
    }
  }
  std::string describe() const override { return "random tokens"; }
  uint64_t fingerprint() const override { return 0; }

 private:
  Tokenizer tokenizer_;
};

struct Usage {
  double page_faults;
  double peak_rss_bytes;
};

Usage usage() {
  rusage r = {};
  getrusage(RUSAGE_SELF, &r);
  return {static_cast<double>(r.ru_minflt), static_cast<double>(r.ru_maxrss) * 1024};
}

}  // namespace

ResolvedConfig bench_config(const std::string& size, const std::vector<std::string>& overrides) {
  for (const Size& s : kSizes) {
    if (size != s.name) continue;
    std::vector<std::string> keys = {fmt::format("model.d_model={}", s.d_model),
                                     fmt::format("model.n_layers={}", s.n_layers),
                                     fmt::format("model.n_heads={}", s.n_heads),
                                     fmt::format("model.vocab_size={}", s.vocab),
                                     fmt::format("train.context_length={}", s.context),
                                     fmt::format("train.batch_size={}", s.batch),
                                     "position.encoding=learned",
                                     "model.tie_embeddings=false",
                                     "probe.inputs=normal"};
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    return load_config("", keys, Purpose::probe);
  }
  throw ConfigError({"bench: no size " + size + "; the sizes are XS, S, M and L"});
}

BenchResult bench_step(const ResolvedConfig& resolved_config, const std::string& name, int64_t warmup, int64_t steps,
                       double seconds) {
  const Config& config = resolved_config.config;
  require(config.model.vocab_size > 0, "bench: model.vocab_size must be given");
  const NoiseData data(config.model.vocab_size);
  Workers workers(config.train.threads);
  Transformer model(architecture_of(config), dtype_of(config.train));
  const auto parameters = static_cast<double>(model.parameters().elements());
  require_memory(estimate_memory(config, parameters, config.model.vocab_size, config.train.context_length));
  model.allocate();
  model.initialize(1);
  Trainer trainer(config, model, data, workers);
  int64_t step = 0;
  for (int64_t i = 0; i < warmup; ++i) trainer.step(++step, {});
  std::vector<double> times;
  const double faults = usage().page_faults;
  double total = 0;
  while (static_cast<int64_t>(times.size()) < steps || total < seconds) {
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = trainer.step(++step, {});
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    total += times.back();
    require(!result.divergence, "bench: the step is not finite");
  }
  const Usage after = usage();
  BenchResult out{
      .name = name, .parameters = model.parameters().elements(), .steps = static_cast<int64_t>(times.size())};
  out.page_faults = (after.page_faults - faults) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double tokens =
      static_cast<double>(config.train.batch_size * config.train.accumulate * config.train.context_length);
  out.step_ms = 1e3 * median;
  out.step_ms_least = 1e3 * times.front();
  out.step_ms_greatest = 1e3 * times.back();
  out.tokens_per_s = tokens / median;
  out.gflops = out.tokens_per_s * count_flops(config, config.train.context_length).training() * 1e-9;
  out.arena_bytes = static_cast<double>(trainer.arena_bytes());
  out.peak_rss_bytes = after.peak_rss_bytes;
  return out;
}

std::string bench_text(const BenchResult& r) {
  return fmt::format(
      "{}: {} parameters, {} steps: {:.2f} ms a step ({:.2f} to {:.2f}), {:.0f} tokens/s, {:.1f} GFLOP/s, {:.1f} page "
      "faults a "
      "step, activations {}, peak memory {}\n",
      r.name, r.parameters, r.steps, r.step_ms, r.step_ms_least, r.step_ms_greatest, r.tokens_per_s, r.gflops,
      r.page_faults, bytes_text(r.arena_bytes), bytes_text(r.peak_rss_bytes));
}

std::string bench_json(const BenchResult& r) {
  return nlohmann::json{{"name", r.name},
                        {"parameters", r.parameters},
                        {"steps", r.steps},
                        {"step_ms", r.step_ms},
                        {"step_ms_least", r.step_ms_least},
                        {"step_ms_greatest", r.step_ms_greatest},
                        {"tokens_per_s", r.tokens_per_s},
                        {"gflops", r.gflops},
                        {"page_faults_per_step", r.page_faults},
                        {"arena_bytes", r.arena_bytes},
                        {"peak_rss_bytes", r.peak_rss_bytes}}
      .dump();
}

}  // namespace ropewalk
