#include "train/bench/scaling.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "train/bench/bench_json.h"
#include "train/bench/machine_peak.h"
#include "train/config_error.h"
#include "train/machine.h"

namespace ropewalk {
namespace {

constexpr int64_t kWindow = 256;
constexpr int64_t kLeastRounds = 3;
constexpr int64_t kMostJobs = 1024;

/// 1, 2, 3, 4, then doubling, up to and with all cores.
std::vector<int64_t> counts_up_to_cores() {
  const auto most = std::max<int64_t>(1, static_cast<int64_t>(allowed_cores().size()));
  std::vector<int64_t> out;
  for (int64_t n = 1; n < most; n = n < 4 ? n + 1 : 2 * n) out.push_back(n);
  out.push_back(most);
  return out;
}

/// Widths that the heads of this size divide.
std::vector<int64_t> usual_widths(int64_t head) {
  std::vector<int64_t> widths = {32, 64, 128, 256, 512};
  const auto divides = [&](int64_t width) { return width % std::min(head, width) == 0; };
  if (std::all_of(widths.begin(), widths.end(), divides)) return widths;
  return {head, 2 * head, 4 * head, 8 * head, 16 * head};
}

std::vector<int64_t> usual_values(ScalingAxis axis, const Config& config) {
  switch (axis) {
    case ScalingAxis::length:
      return {128, 256, 512, 1024, 2048, 4096, 8192};
    case ScalingAxis::width:
      return usual_widths(config.model.d_head);
    case ScalingAxis::threads:
    case ScalingAxis::jobs:
      break;
  }
  return counts_up_to_cores();
}

[[noreturn]] void refuse(ScalingAxis axis, const std::string& what) {
  throw ConfigError({fmt::format("bench scaling over {}: {}", kScalingAxes[static_cast<int>(axis)], what)});
}

struct Alternative {
  ScalingTable::Row row;
  BenchSubject subject;
};

std::vector<Alternative> alternatives(ScalingAxis axis, const ScalingRequest& request) {
  const BenchSubject base = request.subject({});
  const std::vector<int64_t> values = request.values.empty() ? usual_values(axis, base.config) : request.values;
  const TrainConfig& train = base.config.train;
  require(
      axis != ScalingAxis::length || base.config.model.arch != Arch::encoder_decoder,
      "bench scaling: the sequences of model.arch = encoder_decoder are as long as data.max_length makes them, which "
      "no axis changes; take --over width, threads or jobs");
  const int64_t tokens = train.batch_size * train.accumulate * train.context_length;
  std::vector<Alternative> out;
  const auto add = [&](ScalingTable::Row row, const std::vector<std::string>& overrides) {
    out.push_back({std::move(row), request.subject(overrides)});
  };
  for (const int64_t value : values) {
    if (value < 1) refuse(axis, fmt::format("{} is not positive", value));
    switch (axis) {
      case ScalingAxis::length:
        for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
          const std::vector<std::string> sizes = {
              fmt::format("train.context_length={}", value), "train.accumulate=1",
              fmt::format("train.batch_size={}", std::max<int64_t>(1, tokens / value))};
          add({.value = value, .variant = "full", .pass = pass}, sizes);
          if (value <= kWindow) continue;
          std::vector<std::string> window = sizes;
          window.push_back(fmt::format("attention.window_radius={}", kWindow));
          add({.value = value, .variant = fmt::format("window {}", kWindow), .pass = pass}, window);
        }
        break;
      case ScalingAxis::width: {
        const int64_t head = std::min(base.config.model.d_head, value);
        if (value % head != 0) {
          refuse(axis, fmt::format("{} is no multiple of {}, the size of a head; {}, {} and {} are", value, head, head,
                                   2 * head, 3 * head));
        }
        add({.value = value}, {fmt::format("model.d_model={}", value), fmt::format("model.n_heads={}", value / head)});
        break;
      }
      case ScalingAxis::threads:
        add({.value = value}, {fmt::format("train.threads={}", value)});
        break;
      case ScalingAxis::jobs:
        if (value > kMostJobs) refuse(axis, fmt::format("{} are too many; at most {}", value, kMostJobs));
        add({.value = value}, {"train.threads=1"});
        break;
    }
  }
  return out;
}

int64_t greatest_value(const std::vector<Alternative>& all) {
  int64_t most = 0;
  for (const Alternative& alternative : all) most = std::max(most, alternative.row.value);
  return most;
}

void require_memory_of_all(ScalingAxis axis, const std::vector<Alternative>& all) {
  std::vector<BenchSubject> subjects;
  if (axis == ScalingAxis::jobs) {
    subjects.assign(static_cast<std::size_t>(greatest_value(all)), all.front().subject);
  } else {
    for (const Alternative& alternative : all) subjects.push_back(alternative.subject);
  }
  require_memory_for(subjects);
}

/// Trainings that go on side by side, each on a core of its own while there are enough.
class Jobs {
 public:
  Jobs(const BenchSubject& subject, int64_t most) {
    for (int64_t i = 0; i < most; ++i) models_.push_back(std::make_unique<BenchModel>(subject, BenchPass::train));
  }

  /// Seconds a step of one job would take if it were as fast as `count` jobs together; measured for about `seconds`.
  double run(int64_t count, double seconds) {
    std::vector<double> steps_a_second(static_cast<std::size_t>(count));
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        const auto index = static_cast<std::size_t>(i);
        try {
          pin(index);
          double passed = 0;
          int64_t steps = 0;
          for (; passed < seconds || steps < 1; ++steps) passed += models_[index]->run();
          steps_a_second[index] = static_cast<double>(steps) / passed;
        } catch (...) {
          failures[index] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    double together = 0;
    for (const double rate : steps_a_second) together += rate;
    return 1 / together;
  }

  BenchModel& model() { return *models_.front(); }

 private:
  void pin(std::size_t index) const {
    const int core = cores_[index % cores_.size()];
    if (core < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(core), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }

  std::vector<int> cores_ = allowed_cores();
  std::vector<std::unique_ptr<BenchModel>> models_;
};

}  // namespace

void check_scaling(ScalingAxis axis, const ScalingRequest& request) {
  require_memory_of_all(axis, alternatives(axis, request));
}

ScalingTable bench_scaling(ScalingAxis axis, const ScalingRequest& request) {
  const std::vector<Alternative> all = alternatives(axis, request);
  require_memory_of_all(axis, all);
  const bool jobs = axis == ScalingAxis::jobs;

  std::vector<std::unique_ptr<BenchModel>> models;
  std::vector<std::function<double()>> runs;
  std::vector<const BenchModel*> measured;
  std::unique_ptr<Jobs> side_by_side;
  if (jobs) {
    side_by_side = std::make_unique<Jobs>(all.front().subject, greatest_value(all));
    const double slice = request.seconds / static_cast<double>(5 * all.size());
    for (const Alternative& alternative : all) {
      measured.push_back(&side_by_side->model());
      runs.emplace_back(
          [all_jobs = side_by_side.get(), n = alternative.row.value, slice] { return all_jobs->run(n, slice); });
    }
  } else {
    for (const Alternative& alternative : all) {
      models.push_back(std::make_unique<BenchModel>(alternative.subject, alternative.row.pass));
      measured.push_back(models.back().get());
      runs.emplace_back([model = models.back().get()] { return model->run(); });
    }
  }

  const DType dtype = dtype_of(all.front().subject.config.train);
  double peak = measure_fma_peak(dtype, 0.05);
  // What jobs return is less than the time they took.
  const double seconds = jobs ? 0 : request.seconds;
  const std::vector<std::vector<double>> times = time_in_rounds(runs, seconds, jobs ? 5 : kLeastRounds);
  peak = std::max(peak, measure_fma_peak(dtype, 0.05));

  ScalingTable table{.name = all.front().subject.name,
                     .config = all.front().subject.config,
                     .overridden = all.front().subject.overridden,
                     .axis = axis,
                     .rounds = static_cast<int64_t>(times.front().size()),
                     .fma_peak_gflops = peak * 1e-9};
  for (std::size_t i = 0; i < all.size(); ++i) {
    ScalingTable::Row row = all[i].row;
    const BenchModel& model = *measured[i];
    const auto tokens = static_cast<double>(model.tokens());
    row.ms = paired_ratio(times[i], std::vector<double>(times[i].size(), 1.0), 1e3);
    row.tokens_per_s = 1e3 * tokens / row.ms.median;
    const auto first =
        std::find_if(all.begin(), all.end(), [&](const Alternative& a) { return a.row.pass == row.pass; });
    const auto base = static_cast<std::size_t>(first - all.begin());
    row.ratio = paired_ratio(times[base], times[i], tokens / static_cast<double>(measured[base]->tokens()));
    const bool counts_threads = axis == ScalingAxis::threads || jobs;
    const int64_t threads = fma_threads(counts_threads ? row.value : model.config().train.threads);
    row.fma_share = row.tokens_per_s * model.flops_per_token() / (peak * static_cast<double>(threads));
    table.rows.push_back(row);
  }
  return table;
}

std::string to_text(const ScalingTable& t) {
  constexpr const char* kTitles[] = {"tokens of a sequence", "d_model", "threads", "jobs side by side"};
  const bool over_length = t.axis == ScalingAxis::length;
  std::string out =
      fmt::format("{} over {}; FMA peak of a thread {:.1f} GFLOP/s\n{:>8}", t.name, kTitles[static_cast<int>(t.axis)],
                  t.fma_peak_gflops, kScalingAxes[static_cast<int>(t.axis)]);
  if (over_length) out += fmt::format("  {:<8} {:<11}", "pass", "attention");
  out += fmt::format(" {:>10} {:>10} {:>7}  {:<16} {:>9}\n", "ms", "tokens/s", "ratio", "quartiles", "of peak");
  bool credible = true;
  for (const ScalingTable::Row& row : t.rows) {
    out += fmt::format("{:>8}", row.value);
    if (over_length)
      out += fmt::format("  {:<8} {:<11}", row.pass == BenchPass::train ? "train" : "forward", row.variant);
    out += fmt::format(" {:>10.2f} {:>10.0f} {:>7.3f}  {:<16} {:>7.1f} %{}{}\n", row.ms.median, row.tokens_per_s,
                       row.ratio.median, quartiles_text(row.ratio, 3), 100 * row.fma_share, share_mark(row.fma_share),
                       row.ratio.noisy() ? " noisy" : "");
    credible = credible && credible_share(row.fma_share);
  }
  out += fmt::format(
      "ratio: tokens/s over those of the first row{}, within a round; the median of {} rounds, and their quartiles\n{}",
      over_length ? " of the same pass" : "", t.rounds, kNoisyRatio);
  return out + (credible ? "" : kShareRule);
}

std::string to_json(const std::vector<ScalingTable>& tables) {
  nlohmann::json out = nlohmann::json::array();
  for (const ScalingTable& t : tables) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ScalingTable::Row& row : t.rows) {
      nlohmann::json json = {{"value", row.value},
                             {"variant", row.variant},
                             {"pass", row.pass == BenchPass::train ? "train" : "forward"},
                             {"tokens_per_s", row.tokens_per_s},
                             {"fma_share", row.fma_share},
                             {"fma_share_reliable", credible_share(row.fma_share)}};
      put_spread(json, "ms", row.ms);
      put_spread(json, "ratio", row.ratio);
      rows.push_back(std::move(json));
    }
    nlohmann::json table = {{"name", t.name},
                            {"axis", kScalingAxes[static_cast<int>(t.axis)]},
                            {"rounds", t.rounds},
                            {"fma_peak_gflops", t.fma_peak_gflops},
                            {"rows", rows}};
    put_settings(table, t.config, t.overridden);
    out.push_back(std::move(table));
  }
  return nlohmann::json{{"tables", out}}.dump();
}

}  // namespace ropewalk
