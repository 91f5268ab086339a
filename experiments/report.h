#pragma once

#include <string>

#include "experiments/report_subject.h"

namespace ropewalk {

/// One self-contained page that needs no network: what the data say, charts, tables, every run, and the configuration.
/// Its script draws the charts from report_data(), which stands in the page; without scripts the words, the tables and
/// a static figure stay.
std::string report_html(const ReportSubject& subject);

/// What the page of a running sweep polls: report_data(), and under "html" the parts that need no script, by the id of
/// the element that they fill.
std::string report_json(const ReportSubject& subject);

/// The page without data: its script asks `data_url` for report_json(), and asks again every few seconds.
std::string live_report_html(const std::string& title, const std::string& data_url);

}  // namespace ropewalk
