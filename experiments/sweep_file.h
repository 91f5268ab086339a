#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/sweep_plan.h"

namespace ropewalk {

/// key=value
struct SweepCondition {
  std::string key;
  OptionValue value;
};

/// One line of [exclude].
struct SweepRule {
  std::string text;
  std::vector<SweepCondition> conditions;  ///< all must hold
  Origin origin;
};

/// A sweep as its file and the command line give it, before any point is made.
struct SweepFile {
  std::string name;
  Origin name_origin = {};
  std::string from = {};  ///< the variant whose runs all others begin with; "": none
  Origin from_origin = {};
  std::vector<Entry> base;  ///< what all points share
  std::vector<SweepAxis> grid;
  std::vector<SweepVariant> variants;
  std::vector<SweepRule> rules;
  std::vector<int64_t> seeds;  ///< empty: train.seed of the base
  Origin seeds_origin;

  /// Does it say anything that a run file cannot?
  bool is_sweep() const {
    return name_origin.kind != Origin::Kind::built_in || !grid.empty() || !variants.empty() || !rules.empty() ||
           !seeds.empty();
  }
};

/// `name` as a directory can be called anywhere: '_' for all but letters, digits, '_', '-', '.' and '+', and before a
/// '.' or '-' at the start; cut to `longest` bytes.
std::string safe_name(std::string name, std::size_t longest);

/// Reads the file and folds the arguments in. What is wrong goes to `errors`. Throws ConfigError for a file without
/// lines.
SweepFile read_sweep_file(const std::string& file, const std::vector<std::string>& arguments,
                          std::vector<std::string>& errors, const OptionTable& table);

/// The sweep as a file that reads back as it is. Each value is followed by where it came from, as a comment; keys that
/// nobody gave are left out, since what derives from others differs between the points.
std::string print_sweep_file(const SweepFile& sweep, const OptionTable& table);

}  // namespace ropewalk
