#include "experiments/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "experiments/run_result.h"
#include "experiments/sweep_file.h"
#include "experiments/terminal.h"
#include "train/idle_keys.h"
#include "train/parameter_keys.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::size_t kMostPoints = 10'000;
constexpr std::size_t kLongestVariant = 100;

bool varies(const SweepAxis& axis) {
  return axis.values.size() > 1;
}

/// A value as a part of a name: what a choice says alone, and a number or switch after the name of its key.
std::string name_part(const Option& option, const std::string& value) {
  if (option.type == OptionType::choice) return value;
  if (option.type == OptionType::text) return std::filesystem::path(value).stem().string();
  return option.name() + "_" + value;
}

/// The values of the axes that vary, joined; `overrides` has one entry an axis.
std::string point_name(const SweepFile& sweep, const std::vector<Entry>& overrides, const OptionTable& table) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (varies(sweep.grid[i])) parts.push_back(name_part(*table.find(overrides[i].key), overrides[i].value));
  }
  const std::string name = joined(parts, "-");
  return name.empty() ? "base" : safe_name(name, kLongestVariant);
}

std::string unique_name(const std::string& wanted, std::set<std::string>& taken) {
  std::string name = wanted;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", wanted, i);
  return name;
}

/// How many points there are, or the first number too large.
std::size_t count_points(const SweepFile& sweep) {
  std::size_t grid = sweep.grid.empty() && !sweep.variants.empty() ? 0 : 1;
  for (const SweepAxis& axis : sweep.grid) grid = std::min(grid * axis.values.size(), std::size_t{1} << 30);
  return (grid + sweep.variants.size()) * std::max<std::size_t>(sweep.seeds.size(), 1);
}

/// The overrides of each point of the grid, its first line outermost.
std::vector<std::vector<Entry>> grid_points(const SweepFile& sweep) {
  if (sweep.grid.empty()) {
    return sweep.variants.empty() ? std::vector<std::vector<Entry>>(1) : std::vector<std::vector<Entry>>();
  }
  std::vector<std::vector<Entry>> points(1);
  for (const SweepAxis& axis : sweep.grid) {
    std::vector<std::vector<Entry>> longer;
    for (const std::vector<Entry>& point : points) {
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back({"", axis.key, value, axis.origin});
      }
    }
    points = std::move(longer);
  }
  return points;
}

/// All points before their seeds.
std::vector<SweepVariant> make_variants(const SweepFile& sweep, const OptionTable& table) {
  std::set<std::string> taken;
  for (const SweepVariant& variant : sweep.variants) taken.insert(variant.name);
  std::vector<SweepVariant> variants;
  for (std::vector<Entry>& overrides : grid_points(sweep)) {
    const std::string name = unique_name(point_name(sweep, overrides, table), taken);
    variants.push_back({name, std::move(overrides)});
  }
  variants.insert(variants.end(), sweep.variants.begin(), sweep.variants.end());
  return variants;
}

bool matches(const SweepRule& rule, const Config& config, const OptionTable& table) {
  return std::all_of(rule.conditions.begin(), rule.conditions.end(), [&](const SweepCondition& condition) {
    return table.find(condition.key)->get(config) == condition.value;
  });
}

/// The same message from several points, once.
class PointMessages {
 public:
  void add(const std::string& message, const std::string& point) {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.message == message; });
    if (found == rows_.end()) {
      rows_.push_back({message, {point}});
    } else if (found->points.back() != point) {
      found->points.push_back(point);
    }
  }

  /// Those that all points say.
  void append_common_to(std::vector<std::string>& out, std::size_t variants) const {
    for (const Row& row : rows_) {
      if (row.points.size() == variants) out.push_back(row.message);
    }
  }

  /// "run.ini:3: error: point 'post-rope': ...", without the point where all points say so.
  void append_to(std::vector<std::string>& out, std::size_t variants) const {
    for (const Row& row : rows_) out.push_back(row.points.size() == variants ? row.message : named(row));
  }

 private:
  struct Row {
    std::string message;
    std::vector<std::string> points;
  };

  static std::string named(const Row& row) {
    constexpr std::size_t kShown = 3;
    std::vector<std::string> quoted;
    for (const std::string& point : row.points) quoted.push_back(fmt::format("'{}'", point));
    const std::string points = fmt::format("point{} {}", quoted.size() > 1 ? "s" : "", first_of(quoted, kShown));
    for (const std::string_view kind : {": error: ", ": warning: "}) {
      if (const std::size_t at = row.message.find(kind); at != std::string::npos) {
        const std::size_t text = at + kind.size();
        return row.message.substr(0, text) + points + ": " + row.message.substr(text);
      }
    }
    return points + ": " + row.message;
  }

  std::vector<Row> rows_;
};

std::vector<std::string> varying_keys(const SweepFile& sweep) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  for (const SweepAxis& axis : sweep.grid) {
    if (varies(axis)) add(axis.key);
  }
  for (const SweepVariant& variant : sweep.variants) {
    for (const Entry& entry : variant.overrides) add(entry.key);
  }
  return keys;
}

/// Puts the variant that all others begin with before them. Where there is no such variant, the sweep goes without.
void put_first(std::vector<SweepVariant>& variants, SweepFile& sweep, std::vector<std::string>& errors) {
  if (sweep.from.empty()) return;
  const auto found = std::find_if(variants.begin(), variants.end(),
                                  [&](const SweepVariant& variant) { return variant.name == sweep.from; });
  if (found == variants.end()) {
    std::vector<std::string> names;
    for (const SweepVariant& variant : variants) names.push_back(variant.name);
    errors.push_back(error_at(sweep.from_origin, fmt::format("sweep.from = {} is no point of this sweep; it has {}",
                                                             printable(sweep.from), first_of(names, 5))));
    sweep.from.clear();
    return;
  }
  std::rotate(variants.begin(), found, found + 1);
}

/// Makes a point begin with the run of sweep.from of its own seed.
void begin_with_another(const SweepFile& sweep, SweepPoint& point) {
  point.from = run_id({.variant = sweep.from, .seed = point.seed});
  point.config.config.train.from = point.from;
  point.config.origins["train.from"] = sweep.from_origin;
}

/// Every run that another begins with must be in the plan.
void check_beginnings(const SweepFile& sweep, const SweepPlan& plan, std::vector<std::string>& errors) {
  std::set<std::string> ids;
  for (const SweepPoint& point : plan.points) ids.insert(run_id(point));
  for (const SweepPoint& point : plan.points) {
    if (point.from.empty() || ids.count(point.from) > 0) continue;
    errors.push_back(error_at(
        sweep.from_origin,
        fmt::format("{} is to begin with {}, which a rule of [exclude] leaves out", run_id(point), point.from)));
    return;
  }
}

/// The points of the plan, checked. Points that a rule excludes need not be valid.
void add_points(const SweepFile& sweep, const std::vector<SweepVariant>& variants, const Origin& subject,
                SweepPlan& plan, std::vector<std::string>& errors, const OptionTable& table, Purpose purpose) {
  std::vector<bool> rule_used(sweep.rules.size());
  PointMessages point_errors;
  PointMessages point_warnings;
  PointMessages idle_keys;  // of a shared file; what some points do not read, others do
  std::size_t planned_variants = 0;
  Config first;  // of the variant that all others begin with
  for (const SweepVariant& variant : variants) {
    std::vector<Entry> entries = sweep.base;
    entries.insert(entries.end(), variant.overrides.begin(), variant.overrides.end());
    std::vector<std::string> found;
    AppliedEntries applied = apply_entries(entries, subject, found, table);
    const bool begins_with_another = !sweep.from.empty() && variant.name != sweep.from;
    if (begins_with_another) {
      applied.config.train.from = sweep.from;  // the name of the run differs from seed to seed
      if (applied.origins.count("position.max_length") == 0)
        applied.config.position.max_length = first.position.max_length;
    }
    ResolvedConfig resolved = finish(applied, purpose, found);
    if (variant.name == sweep.from) first = resolved.config;
    if (begins_with_another) {
      for (const std::string& conflict : parameter_conflicts(resolved.config, first, table)) {
        found.push_back(error_at(sweep.from_origin, fmt::format("{}; the parameters of sweep.from = {} are made for "
                                                                "the second",
                                                                conflict, sweep.from)));
      }
    }
    bool planned = false;
    for (const int64_t seed : plan.seeds) {
      resolved.config.train.seed = seed;
      if (!sweep.seeds.empty()) resolved.origins["train.seed"] = sweep.seeds_origin;
      bool excluded = false;
      for (std::size_t i = 0; i < sweep.rules.size(); ++i) {
        if (!matches(sweep.rules[i], resolved.config, table)) continue;
        rule_used[i] = excluded = true;
      }
      if (excluded) continue;
      planned = true;
      plan.points.push_back({variant.name, seed, resolved});
      if (begins_with_another) begin_with_another(sweep, plan.points.back());
    }
    if (!planned) continue;
    ++planned_variants;
    for (const std::string& message : found) point_errors.add(message, variant.name);
    for (const std::string& message : resolved.warnings) point_warnings.add(message, variant.name);
    if (!found.empty()) continue;
    for (const std::string& message : idle_key_warnings(applied, resolved, table)) {
      idle_keys.add(message, variant.name);
    }
  }
  point_errors.append_to(errors, planned_variants);
  point_warnings.append_to(plan.warnings, planned_variants);
  idle_keys.append_common_to(plan.warnings, planned_variants);
  for (std::size_t i = 0; i < sweep.rules.size(); ++i) {
    if (rule_used[i]) continue;
    plan.warnings.push_back(fmt::format("{}: warning: rule '{}' excludes no point", sweep.rules[i].origin.text(),
                                        printable(sweep.rules[i].text)));
  }
  check_beginnings(sweep, plan, errors);
  if (plan.points.empty()) errors.push_back(error_at(subject, "the rules of [exclude] leave no point"));
}

/// Only the entries whose key and value are right; what is wrong goes to `errors`, once.
std::vector<Entry> valid_entries(const std::vector<Entry>& entries, const Origin& subject,
                                 std::vector<std::string>& errors, const OptionTable& table) {
  std::vector<Entry> valid;
  for (const Entry& entry : entries) {
    const std::size_t before = errors.size();
    apply_entries({entry}, subject, errors, table);
    if (errors.size() == before) valid.push_back(entry);
  }
  return valid;
}

}  // namespace

SweepPlan plan_sweep(const std::string& file, const std::vector<std::string>& arguments, const OptionTable& table,
                     Purpose purpose) {
  std::vector<std::string> errors;
  SweepFile sweep = read_sweep_file(file, arguments, errors, table);
  const Origin subject{Origin::Kind::file, file, 0};
  sweep.base = valid_entries(sweep.base, subject, errors, table);
  const std::size_t count = count_points(sweep);
  if (count > kMostPoints) {
    errors.push_back(error_at(
        subject, fmt::format("the sweep has {} points; at most {} are planned at once",
                             count >= (std::size_t{1} << 30) ? "too many" : fmt::format("{}", count), kMostPoints)));
    throw ConfigError(std::move(errors));
  }
  SweepPlan plan;
  plan.name = sweep.name;
  plan.is_sweep = sweep.is_sweep();
  plan.varying_keys = varying_keys(sweep);
  std::vector<std::string> ignored;
  plan.seeds = sweep.seeds;
  if (plan.seeds.empty()) plan.seeds = {apply_entries(sweep.base, subject, ignored, table).config.train.seed};
  std::vector<SweepVariant> variants = make_variants(sweep, table);
  put_first(variants, sweep, errors);
  add_points(sweep, variants, subject, plan, errors, table, purpose);
  if (!errors.empty()) throw ConfigError(std::move(errors));
  plan.text = print_sweep_file(sweep, table);
  return plan;
}

}  // namespace ropewalk
