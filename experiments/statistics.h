#pragma once

#include <cstddef>
#include <span>

namespace ropewalk {

/// Mean of the values; NaN if there are none.
double mean(std::span<const double> values);

/// Standard deviation with n - 1 in the denominator; NaN for fewer than two values.
double standard_deviation(std::span<const double> values);

/// P(T <= t) for Student's t with `freedom` > 0 degrees of freedom.
double student_t_cdf(double t, double freedom);

/// The t with P(T <= t) = p, 0 < p < 1; Student's t with `freedom` > 0 degrees of freedom.
double student_t_quantile(double p, double freedom);

/// A two-sided t interval for the mean of paired differences.
struct PairedDifference {
  std::size_t n = 0;  ///< pairs
  double mean = 0;
  double low = 0, high = 0;  ///< NaN for fewer than two pairs
};

/// The differences a[i] - b[i] of pairs (here: of runs with the same seed) and the interval that holds their mean with
/// this confidence. Throws std::invalid_argument if the lengths differ.
PairedDifference paired_difference(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

}  // namespace ropewalk
