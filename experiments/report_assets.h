#pragma once

#include <string_view>

namespace ropewalk {

// The sources of the page, put into the program when it is built.

extern const std::string_view kReportPage;    ///< experiments/report/page.html
extern const std::string_view kReportStyle;   ///< experiments/report/page.css
extern const std::string_view kReportScript;  ///< experiments/report/*.js, one after the other
extern const std::string_view kD3Script;      ///< D3, minified

}  // namespace ropewalk
