#pragma once

#include <string>
#include <vector>

#include "experiments/sweep_plan.h"

namespace ropewalk {

/// The first point of each variant.
std::vector<SweepPoint> variant_points(const SweepPlan& plan);

/// A table of the runs: number, id, and the keys that vary.
std::string runs_text(const SweepPlan& plan);

/// describe() of every variant before anything runs: first the lines that all share, then for each variant its own;
/// variants that are described by the same words stand together. Throws as describe().
std::string describe_sweep(const SweepPlan& plan);

}  // namespace ropewalk
