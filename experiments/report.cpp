#include "experiments/report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "experiments/report_assets.h"
#include "experiments/report_data.h"
#include "experiments/report_tables.h"
#include "experiments/svg_plot.h"

namespace ropewalk {
namespace {

/// The page with each {{mark}} replaced by its part. Parts are not searched for marks.
std::string filled_page(const std::map<std::string, std::string>& parts) {
  std::string out;
  std::string_view rest = kReportPage;
  for (std::size_t begin = rest.find("{{"); begin != std::string_view::npos; begin = rest.find("{{")) {
    const std::size_t end = rest.find("}}", begin);
    const std::string mark(rest.substr(begin + 2, end - begin - 2));
    const auto part = parts.find(mark);
    if (part == parts.end()) throw std::logic_error("page.html has the unknown mark " + mark);
    out += rest.substr(0, begin);
    out += part->second;
    rest.remove_prefix(end + 2);
  }
  return out + std::string(rest);
}

/// The parts that need no script, by the id of their element.
std::map<std::string, std::string> fragments(const ReportSubject& subject, const Comparison& comparison) {
  std::map<std::string, std::string> out;
  out["summary"] = summary_html(subject, comparison);
  out["verdict-text"] = verdict_html(subject, comparison);
  out["length-tables"] = length_tables_html(comparison);
  out["runs-table"] = runs_html(subject, comparison);
  return out;
}

std::string page(const std::string& title, std::map<std::string, std::string> parts) {
  parts["title"] = html_escaped(title);
  parts["style"] = kReportStyle;
  parts["script"] = kReportScript;
  parts["d3"] = kD3Script;
  return filled_page(parts);
}

}  // namespace

std::string report_html(const ReportSubject& subject) {
  const Comparison comparison = compare(subject.runs);
  std::map<std::string, std::string> parts = fragments(subject, comparison);
  for (const MetricTable& table : comparison.tables) parts["figures"] += length_figure_html(comparison, table);
  parts["configuration"] = html_escaped(subject.config);
  parts["connect"] = "'none'";
  parts["data-url"] = "";
  parts["data"] = json_for_script(report_data(subject, comparison));
  return page(subject.title, std::move(parts));
}

std::string report_json(const ReportSubject& subject) {
  const Comparison comparison = compare(subject.runs);
  nlohmann::ordered_json out = report_data(subject, comparison);
  for (const auto& [id, html] : fragments(subject, comparison)) out["html"][id] = html;
  return json_for_script(out);
}

std::string live_report_html(const std::string& title, const std::string& data_url) {
  std::map<std::string, std::string> parts;
  for (const char* mark : {"verdict-text", "length-tables", "runs-table", "figures", "configuration"}) parts[mark] = "";
  parts["summary"] = "Waiting for data.";
  parts["connect"] = "'self'";
  parts["data-url"] = html_escaped(data_url);
  parts["data"] = "null";
  return page(title, std::move(parts));
}

}  // namespace ropewalk
