#include "experiments/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "experiments/blow_up.h"
#include "experiments/comparison.h"
#include "experiments/csv.h"
#include "experiments/export_csv.h"
#include "experiments/run_paths.h"
#include "experiments/run_result.h"
#include "experiments/table_view.h"
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

/// All but the columns of modules and heads.
LogContents outline_of(const std::string& path) {
  LogContents contents = read_log_outline(log_of(path), LogDamage::left_out);
  show_warnings(contents.damage);
  return contents;
}

/// Gradient norms of the modules, rows [first, first + count) of the log.
std::vector<float> layer_norms(LogContents& log, std::size_t first, std::size_t count) {
  const std::size_t noted = log.damage.size();
  std::vector<float> out = read_log_rows(log, "layers", "grad_norm", first, count);
  show_warnings({log.damage.begin() + static_cast<std::ptrdiff_t>(noted), log.damage.end()});
  return out;
}

std::string csv_of(const LogContents& log, const std::string& table) {
  std::string out;
  for (const TableView& view : selected_views(log, table)) {
    write_csv(log.schema, view, [&](std::string_view piece) { out += piece; });
  }
  return out;
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
  const LogContents log = outline_of(path);
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
  if (!is_sweep_directory(path)) return outline_of(path).schema.train_length;
  const std::vector<int64_t> lengths = compare(read_sweep_results(path).runs).train_lengths;
  return lengths.size() == 1 ? lengths.front() : 0;
}

}  // namespace

std::string inspect(const std::string& path, const InspectOptions& options, const TextStyle& style) {
  if (is_sweep_directory(path)) return comparison_text(compare(read_sweep_results(path).runs), style);
  LogContents log = outline_of(path);
  const std::optional<BlowUp> blow_up =
      first_blow_up(log, [&](std::size_t first, std::size_t count) { return layer_norms(log, first, count); });
  LayersTable& layers = log.tables.layers;
  if (!layers.step.empty()) {
    const std::size_t row = shown_layers_row(layers.step, options.steps);
    layers = {.step = {layers.step[row]}, .grad_norm = layer_norms(log, row, 1)};
  }
  return log_text(log, blow_up, RunPaths{directory_of(log.path)}.events(), options, style);
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
  LogContents log = outline_of(path);
  const std::size_t index = index_of_kind(log, kind);
  const auto [begin, end] = rows_of(log, steps);
  const std::size_t kinds = log.schema.layer_kinds.size();
  const auto n_layers = static_cast<std::size_t>(log.schema.n_layers);
  TextHeatMap map{.title = fmt::format("gradient norm of {} by layer and step", printable(kind))};
  for (std::size_t layer = 0; layer < n_layers; ++layer) map.rows.push_back(fmt::format("{}", layer));
  for (std::size_t row = begin; row < end; ++row) map.steps.push_back(log.tables.layers.step[row]);
  read_log_rows(log, "layers", "grad_norm", begin, end - begin, [&](const LogRows& rows) {
    for (std::size_t at = index; at < rows.values.size(); at += kinds) map.values.push_back(rows.values[at]);
  });
  return text_heat_map(map, kWidth, style);
}

std::string inspect_csv(const std::string& path, const StepRange& steps) {
  if (is_sweep_directory(path)) return results_csv(read_sweep_results(path));
  LogContents log = outline_of(path);
  TrainTable& train = log.tables.train;
  std::size_t kept = 0;
  for (std::size_t row = 0; row < train.step.size(); ++row) {
    if (!steps.holds(train.step[row])) continue;
    train.step[kept] = train.step[row];
    for_each_column(train, [&](const ColumnSpec&, auto& values) { values[kept] = values[row]; });
    ++kept;
  }
  train.step.resize(kept);
  return csv_of(log, "train");
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
  LogContents log = outline_of(path);
  const auto [begin, end] = rows_of(log, steps);
  LogContents shown{.schema = log.schema};
  const std::size_t kinds = log.schema.layer_kinds.size();
  const std::size_t index = kind.empty() ? 0 : index_of_kind(log, kind);
  if (!kind.empty()) shown.schema.layer_kinds = {kind};
  for (std::size_t row = begin; row < end; ++row) shown.tables.layers.step.push_back(log.tables.layers.step[row]);
  for_each_column(shown.tables.layers, [&](const ColumnSpec& spec, std::vector<float>& values) {
    read_log_rows(log, "layers", spec.name, begin, end - begin, [&](const LogRows& rows) {
      if (kind.empty()) values.insert(values.end(), rows.values.begin(), rows.values.end());
      for (std::size_t at = index; !kind.empty() && at < rows.values.size(); at += kinds) {
        values.push_back(rows.values[at]);
      }
    });
  });
  return csv_of(shown, "layers");
}

}  // namespace ropewalk
