#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

namespace ropewalk {

/// A field of a CSV file (RFC 4180): in quotes where it needs them.
std::string csv_field(const std::string& value);

/// Empty for what is no number; nine digits, which give a float back as it was.
inline std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "";
}

}  // namespace ropewalk
