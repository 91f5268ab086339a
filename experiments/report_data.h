#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "experiments/comparison.h"
#include "experiments/report_subject.h"

namespace ropewalk {

/// What the charts of a report draw, as docs/report.md describes it: variants, the comparison's cells with their
/// intervals, and the digest of each run's log. Numbers have six significant digits, missing ones are null.
nlohmann::ordered_json report_data(const ReportSubject& subject, const Comparison& comparison);

/// JSON that can stand inside a <script> element: no string in it can end the element or begin a comment.
std::string json_for_script(const nlohmann::ordered_json& json);

}  // namespace ropewalk
