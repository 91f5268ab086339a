#pragma once

#include <string>

#include "experiments/comparison.h"
#include "experiments/report_subject.h"

namespace ropewalk {

/// The parts of a report that need no script, as HTML. Whatever comes from a file is escaped.

/// One sentence: how many variants, seeds and runs, and what became of them.
std::string summary_html(const ReportSubject& subject, const Comparison& comparison);

/// verdict() as paragraphs and lists.
std::string verdict_html(const ReportSubject& subject, const Comparison& comparison);

/// A static figure of a table against length.
std::string length_figure_html(const Comparison& comparison, const MetricTable& table);

/// Means and spreads by length, paired differences to the best mean, and all that the data separate, for every metric.
std::string length_tables_html(const Comparison& comparison);

/// Every run, with the keys in which the configurations differ.
std::string runs_html(const ReportSubject& subject, const Comparison& comparison);

}  // namespace ropewalk
