#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ropewalk {

/// Without blanks, tabs and carriage returns at the ends.
std::string_view trimmed(std::string_view text);

/// "a, b, c"
std::string joined(std::span<const std::string> parts, std::string_view separator = ", ");

/// `x`, but a NaN without the sign that some operations give it: it is shown as "nan", never as "-nan".
double unsigned_nan(double x);

/// `text` fit to stand in a message: control characters replaced by '?', long text cut to 80 bytes.
std::string printable(std::string_view text);

}  // namespace ropewalk
