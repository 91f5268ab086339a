#include "experiments/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>

#include "experiments/svg_plot.h"
#include "experiments/terminal.h"
#include "experiments/verdict.h"
#include "train/text.h"

namespace ropewalk {
namespace {

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string column_heads(const Comparison& comparison) {
  std::string out;
  for (const ComparisonColumn& column : comparison.columns) {
    const std::string tokens =
        column.lengths.size() == 1 ? fmt::format("<br><span class=\"faint\">{}</span>", column.lengths[0]) : "";
    out += fmt::format("<th scope=\"col\">{}{}</th>", multiple_text(column.multiple), tokens);
  }
  return out;
}

/// A table that scrolls by itself where it is too wide; `head` are the cells of its head.
std::string table_begin(const std::string& label, const std::string& text, const std::string& attributes,
                        const std::string& head) {
  return fmt::format(
      "<p class=\"note above\">{}</p>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">"
      "<table{}>\n<thead><tr>{}</tr></thead>\n<tbody>\n",
      text, label, attributes, head);
}

std::string means_html(const Comparison& comparison, const MetricTable& table) {
  std::string out =
      table_begin(metric_name(table.metric) + ", means",
                  capitalized(metric_text(table.metric)) + ": mean ± standard deviation over the seeds that finished.",
                  "", "<th scope=\"col\">variant</th><th scope=\"col\">runs</th>" + column_heads(comparison));
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    const ComparedVariant& variant = comparison.variants[v];
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}/{}</td>", html_escaped(variant.name), variant.counted,
                       variant.runs);
    for (const ComparisonCell& cell : table.cells[v]) {
      out +=
          fmt::format("<td{}>{}</td>", cell.by_seed.empty() ? " class=\"missing\"" : "", html_escaped(cell_text(cell)));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// The variant that the others are compared with at a column: the best mean among those with the most seeds.
std::optional<std::size_t> reference(const MetricTable& table, std::size_t column) {
  std::optional<std::size_t> best;
  for (std::size_t v = 0; v < table.cells.size(); ++v) {
    const ComparisonCell& cell = table.cells[v][column];
    if (cell.by_seed.size() < kFewestSeedsToRank) continue;
    const double sign = less_is_better(table.metric) ? 1 : -1;
    if (!best || sign * cell.mean() < sign * table.cells[*best][column].mean()) best = v;
  }
  return best;
}

std::string difference_cell(const MetricTable& table, std::size_t v, std::size_t column) {
  const std::optional<std::size_t> other = reference(table, column);
  if (!other || table.cells[v][column].by_seed.empty()) return "<td></td>";
  if (*other == v) return "<td class=\"faint\">reference</td>";
  const MeanInterval d = difference(table, v, *other, column);
  if (d.n < kFewestSeedsToRank) return fmt::format("<td class=\"missing\">n = {}</td>", d.n);
  const double scale = table.cells[v][column].mean();
  const bool separated = d.low > 0 || d.high < 0;
  return fmt::format("<td{}>{}<br><span class=\"faint\">{} to {}</span></td>", separated ? "" : " class=\"unclear\"",
                     value_text(d.mean, scale), value_text(d.low, scale), value_text(d.high, scale));
}

std::string differences_html(const Comparison& comparison, const MetricTable& table) {
  bool any = false;
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) any = any || reference(table, c).has_value();
  if (!any || comparison.variants.size() < 2 || comparison.protocol == kSeveralProtocols) return "";
  std::string out = table_begin(
      metric_name(table.metric) + ", differences",
      fmt::format("Difference in {} from the variant with the {} mean (the reference of a column), paired over common "
                  "seeds, with its 95 % t interval. Faint: the interval holds zero, the two are not told apart.",
                  metric_name(table.metric), less_is_better(table.metric) ? "least" : "greatest"),
      "", "<th scope=\"col\">variant</th>" + column_heads(comparison));
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    if (comparison.variants[v].counted == 0) continue;
    out += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(comparison.variants[v].name));
    for (std::size_t c = 0; c < comparison.columns.size(); ++c) out += difference_cell(table, v, c);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string ranking_html(const Comparison& comparison, const MetricTable& table) {
  const std::vector<std::string> lines = ranking_lines(comparison, table);
  if (lines.empty()) return "";
  std::string out = fmt::format("<p class=\"note\">{}</p>\n", html_escaped(lines.front()));
  if (!can_rank(comparison, table)) return out;  // an order of means would pass for a ranking
  out += "<pre>";
  for (std::size_t i = 1; i < lines.size(); ++i) out += html_escaped(lines[i]) + "\n";
  return out + "</pre>\n";
}

/// Against tokens where all were trained at one length, else against multiples of each one's.
LinePlot length_plot(const Comparison& comparison, const MetricTable& table) {
  const bool in_tokens = comparison.train_lengths.size() == 1;
  LinePlot plot;
  plot.y_label = metric_name(table.metric);
  plot.title = plot.y_label + " against evaluated length";
  plot.x_label = in_tokens ? "evaluated length" : "evaluated length over that of training";
  plot.marked_x = in_tokens ? static_cast<double>(comparison.train_lengths[0]) : 1;
  plot.mark_label = in_tokens ? fmt::format("trained at {}", comparison.train_lengths[0]) : "trained at";
  for (const ComparisonColumn& column : comparison.columns) {
    plot.x_ticks.push_back(in_tokens ? static_cast<double>(column.lengths.front()) : column.multiple);
  }
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    PlotSeries series{comparison.variants[v].name, {}, {}, {}, {}};
    for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
      const ComparisonCell& cell = table.cells[v][c];
      if (cell.by_seed.empty()) continue;
      const double middle = cell.mean();
      const double spread = cell.by_seed.size() > 1 ? cell.deviation() : 0;
      series.x.push_back(plot.x_ticks[c]);
      series.y.push_back(middle);
      series.low.push_back(middle - spread);
      series.high.push_back(middle + spread);
    }
    if (!series.x.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string number_cell(double value, const std::string& text) {
  if (!std::isfinite(value)) return "<td></td>";
  return fmt::format("<td data-value=\"{:.9g}\">{}</td>", value, text);
}

std::string number_cell(double value) {
  return number_cell(value, fmt::format("{:.4g}", value));
}

std::string text_cell(const std::string& text) {
  return fmt::format("<td>{}</td>", html_escaped(text));
}

/// All multiples at which some run has a value of the metric, also of runs that do not count.
std::vector<double> at_columns(const RunResult& run, const Comparison& comparison, const std::vector<double>& values) {
  std::vector<double> out(comparison.columns.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
    for (const int64_t length : comparison.columns[c].lengths) {
      const auto found = std::find(run.lengths.begin(), run.lengths.end(), length);
      const auto i = static_cast<std::size_t>(found - run.lengths.begin());
      const bool same_multiple =
          run.train_length == 0 || std::abs(static_cast<double>(length) / static_cast<double>(run.train_length) -
                                            comparison.columns[c].multiple) < 1e-9;
      if (found != run.lengths.end() && i < values.size() && same_multiple) out[c] = values[i];
    }
  }
  return out;
}

std::string remark(const RunResult& run) {
  std::vector<std::string> parts;
  if (!run.reason.empty()) parts.push_back(run.reason);
  if (!run.divergence.empty()) parts.push_back("diverged at " + divergence_text(run.divergence.front()));
  if (!run.log_problem.empty()) parts.push_back(run.log_problem);
  return joined(parts, "; ");
}

}  // namespace

std::string summary_html(const ReportSubject& subject, const Comparison& comparison) {
  std::set<int64_t> seeds;
  std::size_t counted_runs = 0;
  for (const RunResult& run : subject.runs) {
    seeds.insert(run.seed);
    counted_runs += run.counts() ? 1 : 0;
  }
  std::string out = fmt::format("{}, {}, {}, of which {} finished", counted(comparison.variants.size(), "variant"),
                                counted(seeds.size(), "seed"), counted(subject.runs.size(), "run"), counted_runs);
  if (!comparison.train_lengths.empty()) {
    std::vector<std::string> lengths;
    for (const int64_t length : comparison.train_lengths) lengths.push_back(fmt::format("{}", length));
    out += fmt::format("; trained at {} tokens", joined(lengths));
  }
  if (!comparison.protocol.empty()) out += ", evaluated by " + comparison.protocol;
  return html_escaped(out) + ".";
}

std::string verdict_html(const ReportSubject& subject, const Comparison& comparison) {
  const Verdict said = verdict(subject.runs, comparison);
  std::string out = fmt::format("<p class=\"lead\">{}</p>\n", html_escaped(said.lead));
  const auto list = [&](const char* style, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    out += fmt::format("<ul class=\"{}\">\n", style);
    for (const std::string& line : lines) out += fmt::format("<li>{}</li>\n", html_escaped(line));
    out += "</ul>\n";
  };
  list("findings", said.findings);
  list("cautions", said.cautions);
  if (!said.method.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", html_escaped(said.method));
  return out;
}

std::string length_figure_html(const Comparison& comparison, const MetricTable& table) {
  return svg_plot(length_plot(comparison, table));
}

std::string length_tables_html(const Comparison& comparison) {
  if (comparison.columns.empty()) return "<p class=\"note\">No run has been evaluated yet.</p>\n";
  std::string out;
  for (const MetricTable& table : comparison.tables) {
    out += means_html(comparison, table) + differences_html(comparison, table) + ranking_html(comparison, table);
  }
  return out;
}

std::string runs_html(const ReportSubject& subject, const Comparison& comparison) {
  const std::vector<std::string> keys = differing_keys(subject.runs);
  using Column = std::vector<double> RunResult::*;
  const bool task = comparison.tables.size() > 1;
  const Column headline = task ? &RunResult::exact_match : &RunResult::loss;
  const std::string headline_name = task ? "exact match" : "loss";
  std::string head;
  const auto column = [&](const std::string& name) {
    head += fmt::format("<th scope=\"col\">{}</th>", html_escaped(name));
  };
  for (const char* name : {"run", "variant"}) column(name);
  for (const std::string& key : keys) column(key);
  for (const char* name : {"seed", "status", "steps", "parameters", "training loss"}) column(name);
  for (const ComparisonColumn& c : comparison.columns) column(headline_name + " " + multiple_text(c.multiple));
  for (const char* name : {"tokens/s", "time", "remark"}) column(name);
  std::string out =
      table_begin("runs", "Every run, with the keys in which configurations differ.", " id=\"runs\"", head);
  for (const RunResult& run : subject.runs) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>{}", html_escaped(run.id), text_cell(run.variant));
    for (const std::string& key : keys) {
      const auto found = run.configuration.find(key);
      out += text_cell(found == run.configuration.end() ? "" : found->second);
    }
    out += fmt::format("<td data-value=\"{0}\">{0}</td>", run.seed);
    out +=
        fmt::format("<td class=\"status {}\">{}</td>", run.has_diverged() ? "diverged" : "", html_escaped(run.status));
    out += fmt::format("<td data-value=\"{0}\">{0}</td><td data-value=\"{1}\">{1}</td>", run.steps, run.parameters);
    out += number_cell(run.train_loss);
    for (const double value : at_columns(run, comparison, run.*headline)) out += number_cell(value);
    out += number_cell(run.tokens_per_s, fmt::format("{:.0f}", run.tokens_per_s));
    out += number_cell(run.wall_time, std::isfinite(run.wall_time) ? duration_text(run.wall_time) : "");
    out += text_cell(remark(run)) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace ropewalk
