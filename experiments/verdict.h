#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/comparison.h"
#include "experiments/run_result.h"

namespace ropewalk {

/// What a sweep says, in sentences that its statistics support.
struct Verdict {
  std::string lead;                   ///< which variant is best where, or that nothing is ranked and why
  std::vector<std::string> findings;  ///< one a metric and length: by how much, with interval and n
  std::vector<std::string> cautions;  ///< what diverged and where it began, failed, is missing or not finished
  std::string method;                 ///< what the intervals are, and what the protocol scores; "" without values
};

/// A variant is called best at a length only where the 95 % t interval of the difference, paired over common seeds,
/// excludes zero against every other variant. With fewer than kFewestSeedsToRank seeds, or several protocols, nothing
/// is put in an order.
Verdict verdict(std::span<const RunResult> runs, const Comparison& comparison);

/// Keys whose values differ between runs, but for the seed; in the order of the table of keys. Runs whose configuration
/// is not known are passed over.
std::vector<std::string> differing_keys(std::span<const RunResult> runs);

}  // namespace ropewalk
