#include "experiments/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "experiments/packed_numbers.h"

namespace ropewalk {
namespace {

using json = nlohmann::ordered_json;

json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

json cell_json(const ComparisonCell& cell) {
  if (cell.by_seed.empty()) return {{"n", 0}, {"missing", cell.missing}};
  const std::vector<double> values = cell.values();
  const MeanInterval interval = cell.interval();
  return {{"n", values.size()},
          {"mean", number(interval.mean)},
          {"sd", number(cell.deviation())},
          {"low", number(interval.low)},
          {"high", number(interval.high)},
          {"least", number(*std::min_element(values.begin(), values.end()))},
          {"greatest", number(*std::max_element(values.begin(), values.end()))}};
}

json table_json(const MetricTable& table) {
  json cells = json::array();
  for (const auto& row : table.cells) {
    json cells_of_row = json::array();
    for (const ComparisonCell& cell : row) cells_of_row.push_back(cell_json(cell));
    cells.push_back(std::move(cells_of_row));
  }
  return {{"name", metric_name(table.metric)},
          {"unit", metric_unit(table.metric)},
          {"less_is_better", less_is_better(table.metric)},
          {"cells", std::move(cells)}};
}

/// The last step of each bucket, -1 where it holds no row.
std::string packed_steps(const BucketedRows& rows) {
  std::vector<float> steps(rows.size());
  for (std::size_t b = 0; b < rows.size(); ++b) steps[b] = static_cast<float>(rows.last_step(b));
  return packed_floats(steps);
}

/// One value of every bucket: its mean, and where rows were merged its least and greatest. A bucket in which some value
/// was not finite has no mean.
json column_json(const BucketedRows& rows, std::size_t i) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> mean(rows.size(), nan);
  std::vector<float> least = mean;
  std::vector<float> greatest = mean;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const std::size_t finite = rows.finite(b, i);
    if (finite == 0) continue;
    if (finite == rows.rows(b)) mean[b] = static_cast<float>(rows.mean(b, i));
    least[b] = rows.least(b, i);
    greatest[b] = rows.greatest(b, i);
  }
  json out = {{"mean", packed_floats(mean)}};
  if (rows.merged()) {
    out["least"] = packed_floats(least);
    out["greatest"] = packed_floats(greatest);
  }
  return out;
}

/// Codes of [bucket, value] by `value_of(bucket, i)`. What never was finite is absent; elsewhere a bucket with a value
/// that was not finite says so.
template <typename F>
std::string packed_cells(const BucketedRows& rows, F&& value_of) {
  const std::size_t n = rows.row_size();
  std::vector<bool> present(n);
  for (std::size_t b = 0; b < rows.size(); ++b) {
    for (std::size_t i = 0; i < n; ++i) present[i] = present[i] || rows.finite(b, i) > 0;
  }
  std::vector<uint16_t> codes(rows.size() * n, kLog16None);
  for (std::size_t b = 0; b < rows.size(); ++b) {
    if (rows.rows(b) == 0) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (present[i]) codes[b * n + i] = log16(value_of(b, i));
    }
  }
  return packed_codes(codes);
}

json layers_json(const LogDigest& log) {
  const BucketedRows& steps = log.layers[0];
  json out = {{"width", steps.width()}, {"merged", steps.merged()}, {"step", packed_steps(steps)}};
  for (std::size_t q = 0; q < kLayerQuantities.size(); ++q) {
    const BucketedRows& rows = log.layers[q];
    json extremes = {{"greatest", packed_cells(rows, [&](std::size_t b, std::size_t i) {
                        const bool all = rows.finite(b, i) == rows.rows(b);
                        return all ? rows.greatest(b, i) : std::numeric_limits<float>::quiet_NaN();
                      })}};
    if (rows.merged()) {
      extremes["least"] = packed_cells(rows, [&](std::size_t b, std::size_t i) { return rows.least(b, i); });
    }
    out[kLayerQuantities[q]] = std::move(extremes);
  }
  const BucketedRows& ratio = log.log_ratio;
  out["ratio"] = packed_cells(ratio, [&](std::size_t b, std::size_t i) { return std::exp(ratio.mean(b, i)); });
  return out;
}

std::string packed_last(const BucketedRows& rows) {
  std::vector<float> values;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    for (std::size_t i = 0; i < rows.row_size(); ++i) values.push_back(rows.last(b, i));
  }
  return packed_floats(values);
}

json log_json(const LogDigest& log) {
  json out = {{"n_layers", log.n_layers}, {"n_heads", log.n_heads}, {"kinds", log.kinds}};
  if (log.train.size() > 0) {
    const BucketedRows& train = log.train;
    std::vector<float> tokens;
    for (std::size_t b = 0; b < train.size(); ++b) tokens.push_back(train.last(b, LogDigest::tokens));
    out["train"] = {{"width", train.width()},
                    {"merged", train.merged()},
                    {"step", packed_steps(train)},
                    {"tokens", packed_floats(tokens)},
                    {"loss", column_json(train, LogDigest::loss)},
                    {"lr", column_json(train, LogDigest::lr)},
                    {"grad_norm", column_json(train, LogDigest::grad_norm)}};
  }
  if (log.layers[0].size() > 0) out["layers"] = layers_json(log);
  if (log.residual_grad_norm.size() > 0) {
    const BucketedRows& rows = log.residual_grad_norm;
    out["residual"] = {{"width", rows.width()}, {"step", packed_steps(rows)}, {"grad_norm", packed_last(rows)}};
  }
  if (log.entropy.size() > 0) {
    out["attention"] = {{"width", log.entropy.width()},
                        {"step", packed_steps(log.entropy)},
                        {"entropy", packed_last(log.entropy)},
                        {"max_logit", packed_last(log.max_logit)},
                        {"course",
                         {{"width", log.mean_entropy.width()},
                          {"merged", log.mean_entropy.merged()},
                          {"step", packed_steps(log.mean_entropy)},
                          {"mean_entropy", column_json(log.mean_entropy, 0)},
                          {"greatest_logit", column_json(log.greatest_logit, 0)}}}};
  }
  if (log.eval_step >= 0 && !log.loss_by_position.empty()) {
    out["by_position"] = {{"step", log.eval_step},
                          {"lengths", log.eval_lengths},
                          {"positions", log.positions},
                          {"loss", packed_floats(log.loss_by_position)}};
  }
  return out;
}

json run_json(const RunResult& run, const Comparison& comparison) {
  const auto variant = std::find_if(comparison.variants.begin(), comparison.variants.end(),
                                    [&](const ComparedVariant& v) { return v.name == run.variant; });
  json out = {{"id", run.id},           {"variant", variant - comparison.variants.begin()},
              {"seed", run.seed},       {"status", run.status},
              {"counts", run.counts()}, {"diverged", nullptr}};
  if (!run.divergence.empty()) {
    const RunDivergence& divergence = run.divergence.front();
    out["diverged"] = {{"step", divergence.step}, {"text", divergence_text(divergence)}};
  }
  return out;
}

}  // namespace

json report_data(const ReportSubject& subject, const Comparison& comparison) {
  json out = {{"schema", "ropewalk-report"}, {"version", 1}, {"title", subject.title}};
  out["protocol"] = {{"name", comparison.protocol}, {"text", protocol_text(comparison.protocol)}};
  out["train_lengths"] = comparison.train_lengths;
  out["columns"] = json::array();
  for (const ComparisonColumn& column : comparison.columns) {
    out["columns"].push_back({{"multiple", number(column.multiple)}, {"lengths", column.lengths}});
  }
  out["variants"] = json::array();
  for (const ComparedVariant& variant : comparison.variants) {
    out["variants"].push_back(
        {{"name", variant.name}, {"runs", variant.runs}, {"counted", variant.counted}, {"diverged", variant.diverged}});
  }
  out["tables"] = json::array();
  for (const MetricTable& table : comparison.tables) out["tables"].push_back(table_json(table));
  out["runs"] = json::array();
  for (std::size_t i = 0; i < subject.runs.size(); ++i) {
    json run = run_json(subject.runs[i], comparison);
    const bool has_log = i < subject.logs.size() && subject.logs[i];
    run["log"] = has_log ? log_json(*subject.logs[i]) : json(nullptr);
    out["runs"].push_back(std::move(run));
  }
  return out;
}

std::string json_for_script(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace ropewalk
