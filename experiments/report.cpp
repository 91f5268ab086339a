#include "experiments/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "experiments/comparison.h"
#include "experiments/run_paths.h"
#include "experiments/svg_plot.h"
#include "experiments/text_file.h"
#include "train/read_log.h"
#include "train/text.h"

namespace ropewalk {
namespace {

std::string style_sheet() {
  return ":root{--ink:#1b1b1b;--paper:#fff;--rule:#d9d9d9;--faint:#5f5f5f;color-scheme:light dark}\n"
         "@media (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--paper:#161616;--rule:#3a3a3a;--faint:#a8a8a8}}\n"
         "body{color:var(--ink);background:var(--paper);font:16px/1.5 system-ui,sans-serif;max-width:62rem;"
         "margin:2rem auto;padding:0 1rem}\n"
         "table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}\n"
         "th,td{padding:.25rem .8rem .25rem 0;text-align:right;border-bottom:1px solid var(--rule)}\n"
         "th:first-child,td:first-child{text-align:left}\n"
         "td.missing,.faint{color:var(--faint)}\n"
         ".wide{overflow-x:auto}\npre{overflow-x:auto;font-size:13px}\n"
         "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}\n" +
         plot_style();
}

std::string lengths_header(const Comparison& comparison) {
  std::string out = "<tr><th>variant</th><th>runs</th>";
  for (const ComparisonColumn& column : comparison.columns) {
    const std::string tokens =
        column.lengths.size() == 1 ? fmt::format("<br><span class=\"faint\">{}</span>", column.lengths[0]) : "";
    out += fmt::format("<th>{}{}</th>", multiple_text(column.multiple), tokens);
  }
  return out + "</tr>\n";
}

std::string table_html(const Comparison& comparison, const MetricTable& table) {
  std::string out = "<div class=\"wide\"><table>\n" + lengths_header(comparison);
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    const ComparedVariant& variant = comparison.variants[v];
    out += fmt::format("<tr><td>{}</td><td>{}/{}</td>", html_escaped(variant.name), variant.counted, variant.runs);
    for (const ComparisonCell& cell : table.cells[v]) {
      out += cell.by_seed.empty() ? fmt::format("<td class=\"missing\">{}</td>", html_escaped(cell_text(cell)))
                                  : fmt::format("<td>{}</td>", html_escaped(cell_text(cell)));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string ranking_html(const Comparison& comparison, const MetricTable& table) {
  const std::vector<std::string> lines = ranking_lines(comparison, table);
  if (lines.empty()) return "";
  std::string out = fmt::format("<p>{}</p>\n<pre>", html_escaped(lines.front()));
  for (std::size_t i = 1; i < lines.size(); ++i) out += html_escaped(lines[i]) + "\n";
  return out + "</pre>\n";
}

/// Against tokens where all were trained at one length, else against multiples of each one's.
LinePlot length_plot(const Comparison& comparison, const MetricTable& table) {
  const bool in_tokens = comparison.train_lengths.size() == 1;
  LinePlot plot;
  plot.y_label = metric_text(table.metric).substr(0, metric_text(table.metric).find(" ("));
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

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "";
}

std::string runs_html(std::span<const RunResult> runs) {
  std::string out =
      "<div class=\"wide\"><table>\n<tr><th>run</th><th>seed</th><th>status</th><th>steps</th><th>parameters</th>"
      "<th>training loss</th><th>tokens/s</th><th>time</th><th>remark</th></tr>\n";
  for (const RunResult& run : runs) {
    std::string remark = run.reason;
    if (!run.divergence.empty()) remark = divergence_text(run.divergence.front());
    if (!run.log_problem.empty()) remark += (remark.empty() ? "" : "; ") + run.log_problem;
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td></tr>\n",
        html_escaped(run.id), run.seed, html_escaped(run.status), run.steps, run.parameters, number(run.train_loss),
        number(std::round(run.tokens_per_s)), std::isfinite(run.wall_time) ? duration_text(run.wall_time) : "",
        html_escaped(remark));
  }
  return out + "</table></div>\n";
}

/// Why the log of a run that began cannot be read; "" if it can.
std::string log_problem(const RunResult& run) {
  const std::string log = RunPaths{run.directory}.log();
  std::error_code ignored;
  if (!std::filesystem::exists(log, ignored))
    return run.reason.empty() ? "has no log.h5" : "";  // it failed before it made one
  try {
    read_log(log);
    return "";
  } catch (const LogError& error) {
    return error.what();
  }
}

void add_runs(const std::string& directory, bool several, ReportSubject& subject) {
  if (!is_sweep_directory(directory)) {
    subject.runs.push_back(read_single_run(directory));
    subject.runs.back().log_problem = log_problem(subject.runs.back());
    if (!several) {
      subject.title = subject.runs.back().id;
      subject.config = text_of(RunPaths{directory}.config()).value_or("");
    }
    return;
  }
  SweepResults sweep = read_sweep_results(directory);
  for (RunResult& run : sweep.runs) {
    if (run.status != "waiting") run.log_problem = log_problem(run);
    if (several) {
      run.variant = sweep.name + "/" + run.variant;
      run.id = sweep.name + "/" + run.id;
    }
    subject.runs.push_back(std::move(run));
  }
  if (several) return;
  subject.title = sweep.name;
  subject.config = sweep.text;
}

}  // namespace

ReportSubject read_report_subject(std::span<const std::string> directories) {
  ReportSubject subject;
  for (const std::string& directory : directories) add_runs(directory, directories.size() > 1, subject);
  if (directories.size() > 1) subject.title = joined(directories);
  return subject;
}

std::string report_html(const ReportSubject& subject) {
  const Comparison comparison = compare(subject.runs);
  const std::string title = html_escaped(subject.title);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n"
      "<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, style_sheet());
  std::set<int64_t> seeds;
  std::size_t finished = 0;
  for (const RunResult& run : subject.runs) {
    seeds.insert(run.seed);
    finished += run.counts() ? 1 : 0;
  }
  out += fmt::format("<p>{}, {}, {}, of which {} finished.</p>\n", counted(comparison.variants.size(), "variant"),
                     counted(seeds.size(), "seed"), counted(subject.runs.size(), "run"), finished);
  if (!comparison.protocol.empty()) {
    std::vector<std::string> lengths;
    for (const int64_t length : comparison.train_lengths) lengths.push_back(fmt::format("{}", length));
    out +=
        fmt::format("<p>Trained at {}. {}.</p>\n", joined(lengths), html_escaped(protocol_text(comparison.protocol)));
  }
  for (const MetricTable& table : comparison.tables) {
    std::string heading = metric_text(table.metric);
    heading[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(heading[0])));
    out += fmt::format("<h2>{}</h2>\n", html_escaped(heading));
    out += svg_plot(length_plot(comparison, table));
    out += "<p class=\"faint\">Mean ± standard deviation over the seeds that finished; bands show the same.</p>\n";
    out += table_html(comparison, table) + ranking_html(comparison, table);
  }
  out += "<h2>Runs</h2>\n" + runs_html(subject.runs);
  if (!subject.config.empty()) {
    out += fmt::format("<h2>Configuration</h2>\n<details><summary>as it was run</summary>\n<pre>{}</pre>\n</details>\n",
                       html_escaped(subject.config));
  }
  return out + "</body>\n</html>\n";
}

}  // namespace ropewalk
