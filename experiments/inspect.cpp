#include "experiments/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <system_error>

#include "experiments/comparison.h"
#include "experiments/csv.h"
#include "experiments/run_paths.h"
#include "experiments/run_result.h"
#include "experiments/text_heat_map.h"
#include "experiments/text_plot.h"
#include "train/durable_file.h"
#include "train/suggest.h"
#include "train/text.h"
#include "train/warnings.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 80;
constexpr std::size_t kRows = 16;

std::string log_of(const std::string& path) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(path, ignored);
  const std::string log = is_directory ? RunPaths{path}.log() : path;
  if (is_directory && !fs::exists(log, ignored)) {
    throw LogError(fmt::format("'{}' holds neither a run's log.h5 nor a sweep's sweep.ini", printable(path)));
  }
  return log;
}

LogContents contents_of(const std::string& path) {
  LogContents contents = read_log(log_of(path), LogDamage::left_out);
  show_warnings(contents.damage);
  return contents;
}

/// A curve of one run.
struct RunCurve {
  std::string variant;
  int64_t seed = 0;
  std::vector<double> x, y;
};

std::vector<double> column_of(Curve curve, const TrainTable& train) {
  const std::vector<float>& column = curve == Curve::loss ? train.loss : train.grad_norm;
  return {column.begin(), column.end()};
}

void fill_from_log(const std::string& path, Curve curve, const StepRange& steps, RunCurve& out) {
  const LogContents log = contents_of(path);
  if (curve == Curve::length) {
    const EvalTable& eval = log.tables.eval;
    std::size_t row = eval.step.size();
    while (row > 0 && !steps.holds(eval.step[row - 1])) --row;
    if (row == 0) return;
    const std::size_t n = log.schema.eval_lengths.size();
    for (std::size_t i = 0; i < n; ++i) {
      out.x.push_back(static_cast<double>(log.schema.eval_lengths[i]));
      out.y.push_back(eval.loss[(row - 1) * n + i]);
    }
    return;
  }
  const std::vector<double> values = column_of(curve, log.tables.train);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!steps.holds(log.tables.train.step[i])) continue;
    out.x.push_back(static_cast<double>(log.tables.train.step[i]));
    out.y.push_back(values[i]);
  }
}

std::vector<RunCurve> curves_of(const std::string& path, Curve curve, const StepRange& steps) {
  std::vector<RunCurve> out;
  if (!is_sweep_directory(path)) {
    out.emplace_back();
    fill_from_log(path, curve, steps, out.back());
    return out;
  }
  std::vector<std::string> problems;
  for (const RunResult& run : read_sweep_results(path).runs) {
    if (run.status == "waiting") continue;
    try {
      RunCurve one{.variant = run.variant, .seed = run.seed};
      fill_from_log(run.directory, curve, steps, one);
      out.push_back(std::move(one));
    } catch (const LogError& error) {
      problems.push_back(fmt::format("{}: left out: {}", run.id, error.what()));
    }
  }
  if (out.empty()) {
    throw LogError(fmt::format("no run of the sweep '{}' has a log that can be read{}{}", printable(path),
                               problems.empty() ? "" : ": ", problems.empty() ? "" : problems.front()));
  }
  show_warnings(problems);
  return out;
}

/// The mean over the seeds of each variant, at every x that any of them has, over those that have it.
std::vector<TextLine> lines_of(const std::vector<RunCurve>& curves) {
  std::vector<std::string> variants;
  for (const RunCurve& curve : curves) {
    if (std::find(variants.begin(), variants.end(), curve.variant) == variants.end()) variants.push_back(curve.variant);
  }
  std::vector<TextLine> out;
  for (const std::string& variant : variants) {
    struct Sum {
      double of = 0;
      int64_t count = 0;
    };
    std::map<double, Sum> sums;
    std::size_t seeds = 0;
    for (const RunCurve& curve : curves) {
      if (curve.variant != variant) continue;
      ++seeds;
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        Sum& sum = sums[curve.x[i]];
        sum.of += curve.y[i];
        ++sum.count;
      }
    }
    TextLine line{.name = fmt::format("{} ({})", printable(variant), counted(seeds, "seed"))};
    for (const auto& [x, sum] : sums) {
      line.x.push_back(x);
      line.y.push_back(sum.of / static_cast<double>(sum.count));
    }
    out.push_back(std::move(line));
  }
  return out;
}

/// The column of a log that a curve shows.
const char* name_of(Curve curve) {
  return curve == Curve::grad_norm ? "grad_norm" : "loss";
}

std::size_t index_of_kind(const LogContents& log, const std::string& kind) {
  const std::vector<std::string>& kinds = log.schema.layer_kinds;
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
  std::vector<std::string> shown;
  for (const std::string& known : kinds) shown.push_back(printable(known));
  throw std::runtime_error(
      fmt::format("no kind '{}' of module in this log; it has {}", printable(kind), joined(shown)));
}

/// The rows of /layers in these steps.
std::pair<std::size_t, std::size_t> rows_of(const LogContents& log, const StepRange& steps) {
  const std::vector<int64_t>& logged = log.tables.layers.step;
  if (logged.empty()) throw std::runtime_error("no layers were logged (log.layers_every says how often they are)");
  const auto begin = std::lower_bound(logged.begin(), logged.end(), steps.first) - logged.begin();
  const auto end = std::upper_bound(logged.begin(), logged.end(), steps.last) - logged.begin();
  if (begin >= end) {
    throw std::runtime_error(fmt::format("no layers were logged in the steps {}; they are from {} to {}", steps.text(),
                                         logged.front(), logged.back()));
  }
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

/// The length that a run, or every run of a sweep, was trained at; 0 where they differ.
int64_t trained_at(const std::string& path) {
  if (!is_sweep_directory(path)) return contents_of(path).schema.train_length;
  const std::vector<int64_t> lengths = compare(read_sweep_results(path).runs).train_lengths;
  return lengths.size() == 1 ? lengths.front() : 0;
}

}  // namespace

std::string inspect(const std::string& path, const InspectOptions& options, const TextStyle& style) {
  if (is_sweep_directory(path)) return comparison_text(compare(read_sweep_results(path).runs), style);
  const LogContents contents = contents_of(path);
  return log_text(contents, RunPaths{directory_of(contents.path)}.events(), options, style);
}

std::string inspect_plot(const std::string& path, Curve curve, const StepRange& steps, const TextStyle& style) {
  TextPlot plot{.x_label = "step", .y_label = name_of(curve), .lines = lines_of(curves_of(path, curve, steps))};
  const std::string of_variants = is_sweep_directory(path) ? ", mean over seeds" : "";
  if (curve == Curve::length) {
    plot.title = "held-out loss by length (log2), nats a token" + of_variants;
    plot.x_label = "length";
    plot.log2_x = true;
    plot.marked_x = static_cast<double>(trained_at(path));
    plot.mark_label = "trained at";
  } else if (curve == Curve::grad_norm) {
    plot.title = "gradient norm before clipping (log10)" + of_variants;
    plot.log10_y = true;
  } else {
    plot.title = "training loss, nats a token, not smoothed" + of_variants;
  }
  return text_plot(plot, kWidth, kRows, style);
}

std::string inspect_layers(const std::string& path, const std::string& kind, const StepRange& steps,
                           const TextStyle& style) {
  const LogContents log = contents_of(path);
  const std::size_t index = index_of_kind(log, kind);
  const auto [begin, end] = rows_of(log, steps);
  const std::size_t kinds = log.schema.layer_kinds.size();
  const auto n_layers = static_cast<std::size_t>(log.schema.n_layers);
  TextHeatMap map{.title = fmt::format("gradient norm of {} by layer and step", printable(kind))};
  for (std::size_t layer = 0; layer < n_layers; ++layer) map.rows.push_back(fmt::format("{}", layer));
  for (std::size_t row = begin; row < end; ++row) {
    map.steps.push_back(log.tables.layers.step[row]);
    for (std::size_t layer = 0; layer < n_layers; ++layer) {
      map.values.push_back(log.tables.layers.grad_norm[(row * n_layers + layer) * kinds + index]);
    }
  }
  return text_heat_map(map, kWidth, style);
}

std::string inspect_csv(const std::string& path, const StepRange& steps) {
  if (is_sweep_directory(path)) return results_csv(read_sweep_results(path));
  const LogContents log = contents_of(path);
  const TrainTable& train = log.tables.train;
  std::string out = "step";
  const auto is_there = [&](const ColumnSpec& spec) { return row_size(log.schema, "train", spec) > 0; };
  for_each_column(train, [&](const ColumnSpec& spec, const auto&) {
    if (is_there(spec)) out += fmt::format(",{}", spec.name);
  });
  out += "\n";
  for (std::size_t row = 0; row < train.step.size(); ++row) {
    if (!steps.holds(train.step[row])) continue;
    out += fmt::format("{}", train.step[row]);
    for_each_column(train, [&](const ColumnSpec& spec, const auto& values) {
      if (is_there(spec)) out += "," + csv_number(static_cast<double>(values[row]));
    });
    out += "\n";
  }
  return out;
}

std::string inspect_plot_csv(const std::string& path, Curve curve, const StepRange& steps) {
  const std::vector<RunCurve> curves = curves_of(path, curve, steps);
  const bool sweep = is_sweep_directory(path);
  std::string out = fmt::format("{}{},{}\n", sweep ? "variant,seed," : "", curve == Curve::length ? "length" : "step",
                                name_of(curve));
  for (const RunCurve& one : curves) {
    const std::string run = sweep ? fmt::format("{},{},", csv_field(one.variant), one.seed) : "";
    for (std::size_t i = 0; i < one.x.size(); ++i) {
      out += fmt::format("{}{:.0f},{}\n", run, one.x[i], csv_number(one.y[i]));
    }
  }
  return out;
}

std::string inspect_layers_csv(const std::string& path, const std::string& kind, const StepRange& steps) {
  const LogContents log = contents_of(path);
  const auto [begin, end] = rows_of(log, steps);
  const std::size_t kinds = log.schema.layer_kinds.size();
  const std::size_t first = kind.empty() ? 0 : index_of_kind(log, kind);
  const std::size_t last = kind.empty() ? kinds : first + 1;
  const auto n_layers = static_cast<std::size_t>(log.schema.n_layers);
  const LayersTable& layers = log.tables.layers;
  std::string out = "step,layer,kind,grad_norm,param_norm,update_ratio\n";
  for (std::size_t row = begin; row < end; ++row) {
    for (std::size_t layer = 0; layer < n_layers; ++layer) {
      for (std::size_t k = first; k < last; ++k) {
        const std::size_t at = (row * n_layers + layer) * kinds + k;
        out += fmt::format("{},{},{},{},{},{}\n", layers.step[row], layer, csv_field(log.schema.layer_kinds[k]),
                           csv_number(layers.grad_norm[at]), csv_number(layers.param_norm[at]),
                           csv_number(layers.update_ratio[at]));
      }
    }
  }
  return out;
}

}  // namespace ropewalk
