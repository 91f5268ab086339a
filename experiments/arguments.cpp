#include "experiments/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "train/suggest.h"
#include "train/text.h"

namespace ropewalk {
namespace {

std::string help_hint(const std::string& command) {
  return fmt::format("'ropewalk {} --help' lists its flags", command);
}

[[noreturn]] void refuse_unknown(const std::string& command, const std::vector<Flag>& flags, const std::string& name) {
  if (const std::size_t dot = name.find('.'); dot != std::string::npos && dot > 2) {
    throw UsageError(fmt::format("unknown flag '{}'; configuration keys stand without dashes: {}=VALUE",
                                 printable(name), printable(name.substr(name.find_first_not_of('-')))));
  }
  std::vector<std::string> names = {"--help"};
  for (const Flag& flag : flags) names.push_back(flag.name);
  const std::string nearest = nearest_name(name, names);
  throw UsageError(fmt::format("unknown flag '{}' of 'ropewalk {}'; {}", printable(name), command,
                               nearest.empty() ? help_hint(command) : fmt::format("did you mean '{}'?", nearest)));
}

/// Does what stands before the first '=' look like a key? Whether it is one, the configuration says, with a suggestion.
bool is_override(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return false;
  const std::string_view key = trimmed(std::string_view(word).substr(0, equals));
  const auto is_key_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return std::all_of(key.begin(), key.end(), is_key_character);
}

/// "-o", "--jobs"; not "-" and "-1".
bool looks_like_flag(const std::string& word) {
  return word.size() >= 2 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

}  // namespace

std::string Arguments::value(const std::string& flag, const std::string& otherwise) const {
  const auto found = flags.find(flag);
  return found == flags.end() ? otherwise : found->second;
}

Arguments parse_arguments(const std::string& command, const std::vector<Flag>& flags,
                          const std::vector<std::string>& words) {
  Arguments out;
  bool flags_end = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--" && !flags_end) {
      flags_end = true;
      continue;
    }
    if (flags_end || !looks_like_flag(word)) {
      (is_override(word) ? out.overrides : out.files).push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    if (name == "-h") name = "--help";
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name || f.shorter == name; });
    const bool is_help = name == "--help";
    if (flag == flags.end() && !is_help) refuse_unknown(command, flags, name);
    const bool is_switch = is_help || flag->value.empty();
    const std::string full_name = is_help ? name : flag->name;
    std::string value;
    if (is_switch && equals != std::string::npos) throw UsageError(fmt::format("'{}' takes no value", full_name));
    if (!is_switch) {
      if (equals != std::string::npos) {
        value = word.substr(equals + 1);
      } else if (i + 1 < words.size() && !looks_like_flag(words[i + 1])) {
        value = words[++i];
      }
      if (value.empty()) {
        throw UsageError(fmt::format("'{}' needs a value: {} {}", full_name, full_name, flag->value));
      }
    }
    if (!out.flags.emplace(full_name, value).second && !is_switch) {
      throw UsageError(fmt::format("'{}' is given twice; give it once", full_name));
    }
  }
  return out;
}

int64_t whole_number(const Arguments& arguments, const std::string& flag, int64_t otherwise, int64_t minimum,
                     int64_t maximum) {
  if (!arguments.has(flag)) return otherwise;
  const std::string text = arguments.value(flag);
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < minimum || number > maximum) {
    throw UsageError(
        fmt::format("{} = '{}': must be a whole number from {} to {}", flag, printable(text), minimum, maximum));
  }
  return number;
}

double real_number(const Arguments& arguments, const std::string& flag, double otherwise, double minimum,
                   double maximum) {
  if (!arguments.has(flag)) return otherwise;
  const std::string text = arguments.value(flag);
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = problem == std::errc() && end == text.data() + text.size();
  if (!whole || !(number >= minimum && number <= maximum)) {
    throw UsageError(fmt::format("{} = '{}': must be a number from {} to {}", flag, printable(text), minimum, maximum));
  }
  return number;
}

}  // namespace ropewalk
