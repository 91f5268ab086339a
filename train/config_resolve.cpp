#include "train/config_resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "train/config_validate.h"
#include "train/idle_keys.h"
#include "train/option_store.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/text.h"
#include "train/weights_file.h"

namespace ropewalk {
namespace {

constexpr int64_t kWarmupSteps = 100;

void fill(int64_t& value, int64_t derived) {
  if (value == 0) value = derived;
}

const Option& known_option(const OptionTable& table, const std::string& key) {
  const Option* option = table.find(key);
  if (option == nullptr) throw std::invalid_argument("unknown key '" + key + "'");
  return *option;
}

/// Would a file without this key of an unused encoding give another value?
bool must_be_printed(const Option& option, const Config& config, const Config& defaults) {
  if (option.applies_to(config.position.encoding)) return true;
  Config without = config;
  option.set(without, option.get(defaults));
  resolve(without);
  return option.get(without) != option.get(config);
}

bool can_be_read(const Option& option, const std::string& text) {
  try {
    parse_value(option, text);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

std::string unknown_key(const Entry& entry, const OptionTable& table) {
  const std::string key = entry.full_key();
  if (is_sweep_section(entry.section) || (entry.section.empty() && key.starts_with("sweep."))) {
    return fmt::format("'{}' belongs to a sweep; run it with 'ropewalk sweep'", printable(key));
  }
  const std::string suggestion = table.suggestion(key);
  const std::string hint = suggestion.empty() ? "" : fmt::format("; did you mean '{}'?", suggestion);
  return fmt::format("unknown key '{}'{}", printable(key), hint);
}

/// Comments run to the end of the line, so a name in one must not hold a line break.
std::string origin_comment(const Origin& origin) {
  std::string text = origin.text();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

/// The length that the parameters at `from`, a run or a file of weights, were made for; 0 where a file does not say.
int64_t length_made_for(const std::string& from) {
  if (!is_weights_file(from)) return load_config(config_in(from), {}, Purpose::model).config.position.max_length;
  const WeightsHeader header = read_weights_header(from);
  return header.config ? header.config->position.max_length : 0;
}

/// A run that goes on from another's parameters keeps the length that its positions were made for, where none is given.
void inherit_from_run(ResolvedConfig& resolved, std::vector<std::string>& errors) {
  const std::string& from = resolved.config.train.from;
  if (from.empty() || resolved.config.position.max_length != 0) return;
  const std::string file = is_weights_file(from) ? from : config_in(from);
  const auto refuse = [&](const std::string& reason) {
    errors.push_back(error_at(resolved.origin("train.from"), fmt::format("train.from = {}", reason)));
  };
  if (!std::filesystem::exists(file)) return refuse(printable(from) + kNothingToBeginWith);
  try {
    resolved.config.position.max_length = length_made_for(from);
    if (resolved.config.position.max_length != 0) {
      resolved.origins["position.max_length"] = {Origin::Kind::file, file, 0};
    }
  } catch (const ConfigError& problem) {
    errors.insert(errors.end(), problem.messages().begin(), problem.messages().end());
  } catch (const CheckpointError& problem) {
    refuse(problem.what());
  } catch (const DataError& problem) {
    refuse(problem.what());
  }
}

void refuse_sweep_sections(const ConfigLines& lines, std::vector<std::string>& errors) {
  for (const SectionHeader& section : lines.sections) {
    if (!is_sweep_section(section.name)) continue;
    errors.push_back(error_at(
        section.origin, fmt::format("[{}] belongs to a sweep; run it with 'ropewalk sweep'", printable(section.name))));
  }
}

ResolvedConfig resolve_lines(const ConfigLines& lines, const std::vector<Entry>& overrides, const Origin& subject,
                             Purpose purpose, std::vector<std::string> errors, const OptionTable& table) {
  refuse_sweep_sections(lines, errors);
  std::vector<Entry> entries;
  for (const Entry& entry : lines.entries) {
    if (!is_sweep_section(entry.section)) entries.push_back(entry);
  }
  entries.insert(entries.end(), overrides.begin(), overrides.end());
  const AppliedEntries applied = apply_entries(entries, subject, errors, table);
  ResolvedConfig resolved = finish(applied, purpose, errors);
  if (!errors.empty()) throw ConfigError(std::move(errors));
  if (purpose == Purpose::model) return resolved;
  for (std::string& warning : idle_key_warnings(applied, resolved, table)) {
    resolved.warnings.push_back(std::move(warning));
  }
  return resolved;
}

}  // namespace

bool is_sweep_section(std::string_view section) {
  return section == "sweep" || section == "grid" || section == "exclude" || section == "variant" ||
         section.starts_with("variant ") || section.starts_with("variant\t");
}

void resolve(Config& config) {
  derive_sizes(config.model);
  fill(config.position.max_length, std::max(config.train.context_length, config.position.randomize_to));
  derive_position_options(config.position, rotary_width(config.model, config.attention));
  const int64_t steps = config.train.steps;
  if (config.optim.warmup_steps < 0) config.optim.warmup_steps = steps < kWarmupSteps ? steps / 10 : kWarmupSteps;
  if (config.optim.min_lr < 0) config.optim.min_lr = config.optim.lr / 10;
  std::vector<int64_t>& lengths = config.eval.lengths;
  if (lengths.empty()) {
    const int64_t trained = trained_length(config);
    lengths = {trained, trained * 3 / 2, trained * 2, trained * 4, trained * 8};
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  fill(config.eval.tail, std::max<int64_t>(lengths.front() / 2, 1));
}

AppliedEntries apply_entries(const std::vector<Entry>& entries, const Origin& subject, std::vector<std::string>& errors,
                             const OptionTable& table) {
  AppliedEntries applied{table.defaults(), {}, subject};
  std::map<std::string, std::string> values;
  for (const Entry& entry : entries) {
    const std::string key = entry.full_key();
    const Option* option = table.find(key);
    if (option == nullptr) {
      errors.push_back(error_at(entry.origin, unknown_key(entry, table)));
      continue;
    }
    try {
      parse_value(*option, entry.value);
      values[key] = entry.value;
      applied.origins[key] = entry.origin;
    } catch (const std::invalid_argument& problem) {
      errors.push_back(error_at(entry.origin, fmt::format("{} = {}: {}", key, printable(entry.value), problem.what())));
      applied.refused.push_back(key);
    }
  }
  applied.config = store_values(table, {values.begin(), values.end()});
  // Here and not in resolve(), which cannot tell a value that was given from a default.
  if (applied.config.model.arch == Arch::encoder && !values.contains("attention.causal")) {
    applied.config.attention.causal = false;
  }
  return applied;
}

ResolvedConfig finish(const AppliedEntries& applied, Purpose purpose, std::vector<std::string>& errors) {
  ResolvedConfig resolved{applied.config, applied.origins, {}};
  if (purpose != Purpose::model) inherit_from_run(resolved, errors);
  resolve(resolved.config);
  check_across_keys(applied, resolved, purpose, errors);
  return resolved;
}

ResolvedConfig load_config(const std::string& file, const std::vector<std::string>& overrides, Purpose purpose,
                           const OptionTable& table) {
  std::vector<std::string> errors;
  const ConfigLines lines = file.empty() ? ConfigLines{} : read_config_file(file, errors);
  // Without the file nothing else that could be said is true.
  if (!errors.empty() && lines.entries.empty()) throw ConfigError(std::move(errors));
  const std::vector<Entry> words = read_overrides(overrides, errors);
  const Origin subject = file.empty() ? Origin{Origin::Kind::command_line} : Origin{Origin::Kind::file, file, 0};
  return resolve_lines(lines, words, subject, purpose, std::move(errors), table);
}

Config parse_config_text(std::string_view text, const std::string& origin, const OptionTable& table) {
  std::vector<std::string> errors;
  const ConfigLines lines = read_config_text(text, origin, errors);
  return resolve_lines(lines, {}, {Origin::Kind::file, origin, 0}, Purpose::model, std::move(errors), table).config;
}

std::string print_config(const ResolvedConfig& resolved, bool with_origins, const OptionTable& table) {
  std::string text;
  std::string section;
  for (const Option& option : table.options()) {
    if (!must_be_printed(option, resolved.config, table.defaults())) continue;
    const std::string value = format_value(option.get(resolved.config));
    if (!can_be_read(option, value)) continue;  // still to be derived
    if (option.section() != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", option.section());
      section = option.section();
    }
    text += fmt::format("{} ={}{}", option.name(), value.empty() ? "" : " ", quoted_for_file(value));
    text += with_origins ? fmt::format("  # {}\n", origin_comment(resolved.origin(option.key))) : "\n";
  }
  return text;
}

std::string config_value(const Config& config, const std::string& key, const OptionTable& table) {
  return format_value(known_option(table, key).get(config));
}

std::vector<KeyDifference> differing_keys(const Config& a, const Config& b, std::span<const std::string> sections,
                                          const OptionTable& table) {
  std::vector<KeyDifference> out;
  for (const Option& option : table.options()) {
    const bool wanted =
        sections.empty() || std::find(sections.begin(), sections.end(), option.section()) != sections.end();
    const bool used = option.applies_to(a.position.encoding) || option.applies_to(b.position.encoding);
    const OptionValue first = option.get(a);
    const OptionValue second = option.get(b);
    if (!wanted || !used || first == second) continue;
    out.push_back(
        {option.key, fmt::format("{}: {} against {}", option.key, format_value(first), format_value(second))});
  }
  return out;
}

}  // namespace ropewalk
