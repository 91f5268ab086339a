#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ropewalk {

/// Middle value; the mean of the two in the middle of an even number. 0 for none.
double median(std::vector<double> values);

/// How long one of several alternatives took.
struct Timing {
  double median = 0;  ///< seconds
  double least = 0;
  double greatest = 0;
  double ratio = 1;  ///< median over the rounds of its time over that of the first alternative in the same round
  int64_t rounds = 0;
};

/// Times alternatives turn by turn, one run of each a round, so that what disturbs the machine disturbs all alike. An
/// alternative returns the seconds of a run. One round goes unmeasured before the others; they go on until there are
/// `least_rounds` of them and `seconds` have been measured.
std::vector<Timing> time_in_rounds(std::span<const std::function<double()>> alternatives, double seconds,
                                   int64_t least_rounds);

}  // namespace ropewalk
