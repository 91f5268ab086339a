#pragma once

#include <string>
#include <vector>

#include "train/config_resolve.h"
#include "train/options.h"

namespace ropewalk {

/// One run of a sweep.
struct SweepPoint {
  std::string variant;  ///< "post-rope": fit for a directory name; one variant has a run a seed
  int64_t seed = 1;
  ResolvedConfig config;
  std::string from = {};  ///< run of the same sweep whose parameters it begins with, also as train.from; "": none
};

/// A key that takes several values: one line of [grid].
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  Origin origin;
};

/// A point with a name: one [variant NAME].
struct SweepVariant {
  std::string name;
  std::vector<Entry> overrides;  ///< keys fully dotted, no section
};

/// All runs of a sweep, each checked.
struct SweepPlan {
  std::string name;
  bool is_sweep = false;                  ///< does it say more than a run file can? Else there is one point, "base"
  std::vector<std::string> varying_keys;  ///< in order of appearance, without train.seed
  std::vector<int64_t> seeds;
  /// The grid, first line outermost; then the variants; seeds innermost. What others begin with comes first.
  std::vector<SweepPoint> points;
  std::vector<std::string> warnings;
  /// The sweep as one file without includes and overrides, with the origins of its values as comments; planning it
  /// gives the same points.
  std::string text;
};

/// Reads a sweep file and plans its runs.
///
/// A sweep file is a run file (or includes one) with these sections besides:
///   [sweep]         name (default: the file's name), seeds = 1..5 (default: train.seed), from = VARIANT: all other
///                   points begin with the parameters of that one's run of the same seed, and with its max_length
///   [grid]          section.key = a, b, c; the points are the product of the lines, named by the values that vary
///   [variant NAME]  section.key = value lines; each variant is one point more, on the run file's values
///   [exclude]       rule = key=value & key=value; points that match all of a rule are left out
/// Where neither grid nor variants are given, there is one point, "base".
/// A `key=value` argument with a list or range is a line of the grid (train.seed: the seeds); with one value it holds
/// for all points, in place of what grid and variants say of the key. Throws ConfigError with everything that is wrong
/// in any point (as far as `purpose` asks); refuses more than 10,000 points.
SweepPlan plan_sweep(const std::string& file, const std::vector<std::string>& arguments,
                     const OptionTable& table = option_table(), Purpose purpose = Purpose::train);

}  // namespace ropewalk
