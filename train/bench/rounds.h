#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ropewalk {

/// How values measured on a machine that others use too lie about.
struct Spread {
  double median = 0;
  double lower = 0, upper = 0;  ///< quartiles: half of the values lie between them
  double least = 0, greatest = 0;

  /// The quartiles differ by more than a fifth of the median: it tells the machine's load rather than what was
  /// measured.
  bool noisy() const { return upper - lower > 0.2 * median; }
};
/// The rule of Spread::noisy(), for people.
inline constexpr const char* kNoiseRule = "the quartiles differ by more than 20 % of the median";

/// What a table says of its ratios that are marked "noisy".
inline constexpr const char* kNoisyRatio =
    "noisy: its quartiles differ by more than 20 % of it, so that it says nothing; measure longer (--seconds), or "
    "when\n"
    "       the machine has less else to do\n";

/// The spread of some values; between two of them quartiles and the median are interpolated. All 0 for none.
Spread spread_of(std::vector<double> values);

/// Middle value; the mean of the two in the middle of an even number. 0 for none.
double median(std::vector<double> values);

/// "0.98 to 1.02", the quartiles.
std::string quartiles_text(const Spread& spread, int decimals);

/// Times alternatives turn by turn, one run of each a round, so that what disturbs the machine disturbs all alike. An
/// alternative returns the seconds of a run. One round goes unmeasured before the others; they go on until there are
/// `least_rounds` of them and `seconds` have been measured. Returns the seconds of each alternative in every round.
std::vector<std::vector<double>> time_in_rounds(std::span<const std::function<double()>> alternatives, double seconds,
                                                int64_t least_rounds);

/// `factor` times the seconds of one alternative over those of another, of every round by itself.
Spread paired_ratio(std::span<const double> seconds, std::span<const double> over, double factor = 1);

}  // namespace ropewalk
