// The options table for readers: help on a terminal, and the documentation page.

#include <fmt/format.h>

#include "train/options.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::size_t kIndent = 36;
constexpr std::size_t kColumns = 110;

std::string type_text(const Option& option) {
  switch (option.type) {
    case OptionType::boolean:
      return "true | false";
    case OptionType::integer:
      return "integer";
    case OptionType::real:
      return "real";
    case OptionType::text:
      return "text";
    case OptionType::choice:
      return joined(option.choices, " | ");
    case OptionType::integer_list:
      return "integers";
  }
  return "";
}

std::string default_text(const Option& option) {
  return option.default_text.empty() ? "none" : option.default_text;
}

/// Help, and which encodings read the key.
std::string meaning(const Option& option) {
  if (option.schemes.empty()) return option.help;
  return fmt::format("{}: {}", joined(option.schemes), option.help);
}

std::string numeric_limits_text(const Option& option) {
  return option.choices.empty() ? limits_text(option) : "";
}

/// `text` in lines of kColumns, each after kIndent blanks but for the first, which follows `lead`.
std::string wrapped(const std::string& lead, std::string_view text) {
  std::string out = lead;
  std::size_t column = lead.size();
  if (column + 1 > kIndent) {
    out += "\n";
    column = 0;
  }
  out.append(kIndent - column, ' ');
  column = kIndent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > kIndent && column + 1 + end > kColumns) {
      out += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (column > kIndent) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

std::string in_table_cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string options_help(const OptionTable& table) {
  std::string out;
  std::string section;
  for (const Option& option : table.options()) {
    if (option.section() != section) {
      section = option.section();
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    }
    const std::string limits = numeric_limits_text(option);
    out += wrapped("  " + option.key, fmt::format("{} (default {})", type_text(option), default_text(option)));
    out += wrapped("", meaning(option) + (limits.empty() ? "" : "; " + limits));
  }
  return out;
}

std::string options_markdown(const OptionTable& table) {
  std::string out =
      "# Configuration keys\n\n"
      "This page is printed by `ropewalk config --markdown` from the table that the program itself reads.\n";
  std::string section;
  for (const Option& option : table.options()) {
    if (option.section() != section) {
      section = option.section();
      out += fmt::format("\n## [{}]\n\n| key | values | default | meaning |\n|---|---|---|---|\n", section);
    }
    const std::string limits = numeric_limits_text(option);
    const std::string values = type_text(option) + (limits.empty() ? "" : ", " + limits);
    out += fmt::format("| `{}` | {} | {} | {} |\n", option.name(), in_table_cell(values),
                       in_table_cell(default_text(option)), in_table_cell(meaning(option)));
  }
  return out;
}

}  // namespace ropewalk
