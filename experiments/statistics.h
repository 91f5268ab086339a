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

/// A mean and its two-sided t interval.
struct MeanInterval {
  std::size_t n = 0;
  double mean = 0;           ///< NaN for no value
  double low = 0, high = 0;  ///< NaN for fewer than two values
};

/// The mean of the values and the interval that holds it with this confidence.
MeanInterval mean_interval(std::span<const double> values, double confidence = 0.95);

/// mean_interval() of the differences a[i] - b[i] of pairs (here: of runs with the same seed). Throws
/// std::invalid_argument if the lengths differ.
MeanInterval paired_difference(std::span<const double> a, std::span<const double> b, double confidence = 0.95);

}  // namespace ropewalk
