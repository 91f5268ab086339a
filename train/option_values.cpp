// The text of values: reading, checking, printing.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "train/options.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr int64_t kLongestList = 10'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Without the underscores between digits and a plus in front, neither of which std::from_chars reads.
std::string plain_number(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between_digits =
        text[i] == '_' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    const bool leading_plus = text[i] == '+' && i == 0 && text.size() > 1 && text[1] != '-';
    if (!between_digits && !leading_plus) out += text[i];
  }
  return out;
}

std::optional<double> to_real(std::string_view text) {
  const std::string number = plain_number(text);
  double value = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (code != std::errc{} || end != number.data() + number.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> to_integer(std::string_view text) {
  const std::string number = plain_number(text);
  int64_t value = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (code == std::errc{} && end == number.data() + number.size()) return value;
  // 5e3 is a whole number too, as far as a double holds whole numbers exactly.
  const std::optional<double> real = to_real(text);
  if (!real || *real != std::trunc(*real) || std::abs(*real) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::optional<bool> to_boolean(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower == "true" || lower == "on" || lower == "yes" || lower == "1") return true;
  if (lower == "false" || lower == "off" || lower == "no" || lower == "0") return false;
  return std::nullopt;
}

/// A limit as a number of the kind that it bounds: the largest whole numbers have no double of their own.
template <class T>
T limit(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    if (value >= 0x1p63) return std::numeric_limits<T>::max();
    return value <= -0x1p63 ? std::numeric_limits<T>::min() : static_cast<T>(value);
  }
}

template <class T>
T within(const Option& option, T value) {
  const Limits& l = option.limits;
  const T least = limit<T>(l.minimum), most = limit<T>(l.maximum);
  const bool low = l.above_minimum ? value <= least : value < least;
  const bool high = l.below_maximum ? value >= most : value > most;
  if (low || high) throw std::invalid_argument("must be " + limits_text(option));
  return value;
}

int64_t integer(const Option& option, std::string_view text) {
  const std::optional<int64_t> value = to_integer(text);
  if (!value) throw std::invalid_argument(fmt::format("'{}' is not a whole number", printable(text)));
  return within(option, *value);
}

double real(const Option& option, std::string_view text) {
  const std::optional<double> value = to_real(text);
  if (!value) throw std::invalid_argument(fmt::format("'{}' is not a finite number", printable(text)));
  return within(option, *value);
}

std::vector<std::string_view> items(std::string_view text) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t comma = text.find(',');
    out.push_back(trimmed(text.substr(0, comma)));
    if (out.back().empty()) throw std::invalid_argument("an item of the list is empty");
    if (static_cast<int64_t>(out.size()) > kLongestList) {
      throw std::invalid_argument(fmt::format("more than {} items", kLongestList));
    }
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

/// Commas and ranges as 1..20, each value once.
std::vector<int64_t> integers(const Option& option, std::string_view text) {
  std::vector<int64_t> out;
  for (const std::string_view item : items(text)) {
    const std::size_t dots = item.find("..");
    const int64_t first = integer(option, trimmed(item.substr(0, dots)));
    const int64_t last = dots == std::string_view::npos ? first : integer(option, trimmed(item.substr(dots + 2)));
    if (last < first) throw std::invalid_argument(fmt::format("the range {} runs backwards", printable(item)));
    if (last - first >= kLongestList - static_cast<int64_t>(out.size())) {
      throw std::invalid_argument(fmt::format("more than {} items", kLongestList));
    }
    for (int64_t i = 0; i <= last - first; ++i) out.push_back(first + i);
  }
  std::vector<int64_t> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw std::invalid_argument(fmt::format("{} stands there twice", *twice));
  return out;
}

/// 1, 2, 3, 4, 7 as "1..4, 7".
std::string format_integers(const std::vector<int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] - values[i] == static_cast<int64_t>(end - i)) ++end;
    const std::size_t length = end - i;
    if (!text.empty()) text += ", ";
    text += length > 2 ? fmt::format("{}..{}", values[i], values[end - 1]) : fmt::format("{}", values[i]);
    i = length > 2 ? end : i + 1;
  }
  return text;
}

bool may_be_empty(const Option& option) {
  return option.key == "eval.lengths";
}

}  // namespace

OptionValue parse_value(const Option& option, std::string_view text) {
  text = trimmed(text);
  if (option.type == OptionType::text) return std::string(text);
  if (text.empty() && !may_be_empty(option)) throw std::invalid_argument("no value is given");
  if (lists_values(option, text)) {
    throw std::invalid_argument("takes one value here; 'ropewalk sweep' runs lists and ranges of values");
  }
  switch (option.type) {
    case OptionType::boolean: {
      const std::optional<bool> value = to_boolean(text);
      if (!value) throw std::invalid_argument("must be true or false (or on, off, yes, no, 1, 0)");
      return *value;
    }
    case OptionType::integer:
      return integer(option, text);
    case OptionType::real:
      return real(option, text);
    case OptionType::choice:
      if (std::find(option.choices.begin(), option.choices.end(), text) == option.choices.end()) {
        throw std::invalid_argument("must be " + limits_text(option));
      }
      return std::string(text);
    case OptionType::integer_list:
      return text.empty() ? std::vector<int64_t>{} : integers(option, text);
    case OptionType::text:
      break;
  }
  return std::string(text);
}

std::string format_value(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          return format_integers(v);
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

bool lists_values(const Option& option, std::string_view text) {
  if (option.type == OptionType::text || option.type == OptionType::integer_list) return false;
  return text.find(',') != std::string_view::npos || text.find("..") != std::string_view::npos;
}

std::vector<std::string> parse_list(const Option& option, std::string_view text) {
  if (option.type == OptionType::integer_list) {
    throw std::invalid_argument("is a list itself; vary it with [variant NAME] sections");
  }
  std::vector<std::string> out;
  if (option.type == OptionType::integer) {
    for (const int64_t value : integers(option, trimmed(text))) out.push_back(format_value(value));
    return out;
  }
  for (const std::string_view item : items(trimmed(text))) {
    if (option.type != OptionType::text && item.find("..") != std::string_view::npos) {
      throw std::invalid_argument(fmt::format("'{}': ranges are for whole numbers only", printable(item)));
    }
    out.push_back(format_value(parse_value(option, item)));
    if (std::count(out.begin(), out.end(), out.back()) > 1) {
      throw std::invalid_argument(fmt::format("{} stands there twice", printable(out.back())));
    }
  }
  return out;
}

std::string limits_text(const Option& option) {
  if (!option.choices.empty()) return fmt::format("one of {}", joined(option.choices));
  const Limits& l = option.limits;
  const bool low = std::isfinite(l.minimum);
  const bool high = std::isfinite(l.maximum);
  const std::string least = fmt::format("{} {}", l.above_minimum ? "greater than" : "at least", l.minimum);
  const std::string most = fmt::format("{} {}", l.below_maximum ? "less than" : "at most", l.maximum);
  if (low && high) return least + " and " + most;
  return low ? least : high ? most : "";
}

}  // namespace ropewalk
