#include "experiments/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::size_t kLongestName = 80;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '+';
}

/// Can `name` be a directory's name anywhere?
bool is_safe_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

Option seeds_option() {
  Option option{.key = "sweep.seeds", .type = OptionType::integer_list};
  option.limits = {.minimum = 0, .maximum = 9.2e18};
  return option;
}

class SweepReader {
 public:
  SweepReader(std::vector<std::string>& errors, const OptionTable& table) : errors_(errors), table_(table) {}

  void read(const ConfigLines& lines) {
    for (const SectionHeader& section : lines.sections) {
      if (is_variant(section.name)) add_variant(section);
    }
    for (const Entry& entry : lines.entries) {
      if (entry.section == "sweep") {
        read_setting(entry.key, entry);
      } else if (entry.section == "grid") {
        read_axis({"", entry.key, entry.value, entry.origin});
      } else if (entry.section == "exclude") {
        read_rule(entry);
      } else if (is_variant(entry.section)) {
        read_override(entry);
      } else if (entry.full_key().starts_with("sweep.")) {
        read_setting(entry.full_key().substr(6), entry);
      } else {
        sweep.base.push_back({"", entry.full_key(), entry.value, entry.origin});
      }
    }
  }

  void apply(const Entry& word) {
    if (word.key.starts_with("sweep.")) return read_setting(word.key.substr(6), word);
    const Option* option = table_.find(word.key);
    if (option != nullptr && (lists_values(*option, word.value) || is_text_list(*option, word.value))) {
      return read_axis(word);
    }
    fix_everywhere(word);
    if (word.key == "train.seed") sweep.seeds.clear();
    sweep.base.push_back(word);
  }

  SweepFile sweep;

 private:
  static bool is_variant(const std::string& section) {
    return is_sweep_section(section) && section.starts_with("variant");
  }
  static bool is_text_list(const Option& option, const std::string& value) {
    return option.type == OptionType::text && value.find(',') != std::string::npos;
  }

  void fail(const Origin& origin, const std::string& message) { errors_.push_back(error_at(origin, message)); }

  const Option* find(const std::string& key, const Origin& origin) {
    const Option* option = table_.find(key);
    if (option == nullptr) {
      const std::string suggestion = table_.suggestion(key);
      fail(origin, fmt::format("unknown key '{}'{}", printable(key),
                               suggestion.empty() ? "" : fmt::format("; did you mean '{}'?", suggestion)));
    }
    return option;
  }

  void read_setting(const std::string& key, const Entry& entry) {
    if (key == "name") {
      if (!is_safe_name(entry.value)) {
        fail(entry.origin,
             fmt::format("sweep.name = {}: must be 1 to {} letters, digits, '_', '-', '+' or '.', and start "
                         "with none of '-' and '.'",
                         printable(entry.value), kLongestName));
      }
      sweep.name = entry.value;
      sweep.name_origin = entry.origin;
    } else if (key == "seeds") {
      read_seeds("sweep.seeds", entry);
    } else if (key == "from") {
      sweep.from = entry.value;
      sweep.from_origin = entry.origin;
    } else {
      fail(entry.origin, fmt::format("unknown key 'sweep.{}'; [sweep] has name, seeds and from", printable(key)));
    }
  }

  void read_seeds(const std::string& key, const Entry& entry) {
    const bool from_file = entry.origin.kind == Origin::Kind::file;
    if (from_file && !seeds_key_.empty() && seeds_key_ != key) {
      return fail(entry.origin, fmt::format("{} and {} ({}) both give the seeds; keep one", key, seeds_key_,
                                            sweep.seeds_origin.text()));
    }
    seeds_key_ = key;
    sweep.seeds_origin = entry.origin;
    try {
      sweep.seeds = std::get<std::vector<int64_t>>(parse_value(seeds_option(), entry.value));
    } catch (const std::invalid_argument& problem) {
      fail(entry.origin, fmt::format("{} = {}: {}", key, printable(entry.value), problem.what()));
    }
  }

  void read_axis(const Entry& entry) {
    if (entry.key == "train.seed") return read_seeds(entry.key, entry);
    const Option* option = find(entry.key, entry.origin);
    if (option == nullptr) return;
    SweepAxis axis{entry.key, {}, entry.origin};
    try {
      axis.values = parse_list(*option, entry.value);
    } catch (const std::invalid_argument& problem) {
      return fail(entry.origin, fmt::format("{} = {}: {}", entry.key, printable(entry.value), problem.what()));
    }
    const auto known = std::find_if(sweep.grid.begin(), sweep.grid.end(),
                                    [&](const SweepAxis& other) { return other.key == axis.key; });
    if (known == sweep.grid.end()) {
      sweep.grid.push_back(std::move(axis));
    } else {
      *known = std::move(axis);
    }
  }

  SweepVariant* variant(const std::string& section) {
    const std::string name(trimmed(std::string_view(section).substr(7)));
    const auto found = std::find_if(sweep.variants.begin(), sweep.variants.end(),
                                    [&](const SweepVariant& v) { return v.name == name; });
    return found == sweep.variants.end() ? nullptr : &*found;
  }

  void add_variant(const SectionHeader& section) {
    const std::string name(trimmed(std::string_view(section.name).substr(7)));
    if (!is_safe_name(name)) {
      fail(section.origin,
           fmt::format("[variant {}]: a variant's name must be 1 to {} letters, digits, '_', '-', '+' or "
                       "'.', and start with none of '-' and '.'",
                       printable(name), kLongestName));
    }
    if (variant(section.name) == nullptr) sweep.variants.push_back({name, {}});
  }

  void read_override(const Entry& entry) {
    const Option* option = find(entry.key, entry.origin);
    if (option == nullptr) return;
    if (entry.key == "train.seed") {
      return fail(entry.origin, "train.seed in a variant: every variant runs with the seeds of [sweep]");
    }
    try {
      parse_value(*option, entry.value);
    } catch (const std::invalid_argument& problem) {
      const bool list = lists_values(*option, entry.value);
      return fail(entry.origin,
                  fmt::format("{} = {}: {}", entry.key, printable(entry.value),
                              list ? "a variant takes one value; lists belong in [grid]" : problem.what()));
    }
    std::vector<Entry>& overrides = variant(entry.section)->overrides;
    const auto known =
        std::find_if(overrides.begin(), overrides.end(), [&](const Entry& other) { return other.key == entry.key; });
    const Entry dotted{"", entry.key, entry.value, entry.origin};
    if (known == overrides.end()) {
      overrides.push_back(dotted);
    } else {
      *known = dotted;
    }
  }

  void read_rule(const Entry& entry) {
    if (entry.key != "rule") {
      return fail(entry.origin,
                  fmt::format("[exclude] has lines 'rule = section.key=value & section.key=value', not '{}'",
                              printable(entry.key)));
    }
    SweepRule rule{entry.value, {}, entry.origin};
    std::string_view rest = entry.value;
    while (true) {
      const std::size_t end = rest.find('&');
      if (!read_condition(rest.substr(0, end), entry.origin, rule)) return;
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    sweep.rules.push_back(std::move(rule));
  }

  bool read_condition(std::string_view text, const Origin& origin, SweepRule& rule) {
    const std::size_t equals = text.find('=');
    const std::string key(trimmed(text.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty()) {
      fail(origin,
           fmt::format("expected 'rule = section.key=value & section.key=value', got '{}'", printable(rule.text)));
      return false;
    }
    const Option* option = find(key, origin);
    if (option == nullptr) return false;
    const std::string_view value = trimmed(text.substr(equals + 1));
    try {
      rule.conditions.push_back({key, parse_value(*option, value)});
      return true;
    } catch (const std::invalid_argument& problem) {
      const char* reason =
          lists_values(*option, value) ? "a rule compares with one value; write a rule for each" : problem.what();
      fail(origin, fmt::format("rule: {} = {}: {}", key, printable(value), reason));
      return false;
    }
  }

  /// The command line decides about this key for all points.
  void fix_everywhere(const Entry& word) {
    const auto same = [&](const auto& other) { return other.key == word.key; };
    std::erase_if(sweep.base, same);
    for (SweepVariant& variant : sweep.variants) std::erase_if(variant.overrides, same);
    if (std::any_of(sweep.grid.begin(), sweep.grid.end(), same)) read_axis(word);
  }

  std::vector<std::string>& errors_;
  const OptionTable& table_;
  std::string seeds_key_;
};

}  // namespace

std::string safe_name(std::string name, std::size_t longest) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '_');
  if (name.empty() || name[0] == '.' || name[0] == '-') name.insert(name.begin(), '_');
  if (name.size() > longest) name.resize(longest);
  return name;
}

SweepFile read_sweep_file(const std::string& file, const std::vector<std::string>& arguments,
                          std::vector<std::string>& errors, const OptionTable& table) {
  SweepReader reader(errors, table);
  reader.sweep.name = safe_name(std::filesystem::path(file).stem().string(), kLongestName);
  const ConfigLines lines = read_config_file(file, errors);
  // Without the file nothing else that could be said is true.
  if (!errors.empty() && lines.entries.empty() && lines.sections.empty()) throw ConfigError(std::move(errors));
  reader.read(lines);
  for (const Entry& word : read_overrides(arguments, errors)) reader.apply(word);
  return std::move(reader.sweep);
}

std::string print_sweep_file(const SweepFile& sweep, const OptionTable& table) {
  std::string text = "# Keys that do not stand here are at their defaults.\n";
  const auto add = [&](const std::string& key, const std::string& value, const Origin& origin) {
    text += fmt::format("{} = {}  # {}\n", key, quoted_for_file(value), printable(origin.text()));
  };
  for (const Option& option : table.options()) {
    const auto last = std::find_if(sweep.base.rbegin(), sweep.base.rend(),
                                   [&](const Entry& entry) { return entry.key == option.key; });
    if (last != sweep.base.rend()) add(last->key, last->value, last->origin);
  }
  text += "\n[sweep]\n";
  add("name", sweep.name, sweep.name_origin);
  if (!sweep.from.empty()) add("from", sweep.from, sweep.from_origin);
  if (!sweep.seeds.empty()) add("seeds", format_value(sweep.seeds), sweep.seeds_origin);
  if (!sweep.grid.empty()) text += "\n[grid]\n";
  for (const SweepAxis& axis : sweep.grid) add(axis.key, joined(axis.values), axis.origin);
  for (const SweepVariant& variant : sweep.variants) {
    text += fmt::format("\n[variant {}]\n", variant.name);
    for (const Entry& entry : variant.overrides) add(entry.key, entry.value, entry.origin);
  }
  if (!sweep.rules.empty()) text += "\n[exclude]\n";
  for (const SweepRule& rule : sweep.rules) add("rule", rule.text, rule.origin);
  return text;
}

}  // namespace ropewalk
