#include "experiments/statistics.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace ropewalk {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The continued fraction of the incomplete beta function by Lentz's method; converges fast for x < (a+1)/(a+b+2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr int kMostTerms = 10'000;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  if (std::abs(d) < kTiny) d = kTiny;
  d = 1 / d;
  double fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      c = 1 + term / c;
      if (std::abs(d) < kTiny) d = kTiny;
      if (std::abs(c) < kTiny) c = kTiny;
      d = 1 / d;
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < 1e-16) break;
  }
  return fraction;
}

/// The regularized incomplete beta function I_x(a, b); `y` is 1 - x, given apart so that neither loses its digits.
double incomplete_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return kNan;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNan;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double student_t_cdf(double t, double freedom) {
  const double square = t * t;
  const double tail =
      0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square));
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double freedom) {
  if (!(p > 0 && p < 1 && freedom > 0)) throw std::invalid_argument("a t quantile needs 0 < p < 1 and freedom > 0");
  if (p < 0.5) return -student_t_quantile(1 - p, freedom);
  double low = 0;
  double high = 1;
  while (student_t_cdf(high, freedom) < p && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (student_t_cdf(middle, freedom) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

MeanInterval mean_interval(std::span<const double> values, double confidence) {
  MeanInterval out{values.size(), mean(values), kNan, kNan};
  if (out.n < 2) return out;
  const double half = student_t_quantile(0.5 + confidence / 2, static_cast<double>(out.n - 1)) *
                      standard_deviation(values) / std::sqrt(static_cast<double>(out.n));
  out.low = out.mean - half;
  out.high = out.mean + half;
  return out;
}

MeanInterval paired_difference(std::span<const double> a, std::span<const double> b, double confidence) {
  if (a.size() != b.size()) throw std::invalid_argument("paired values must be as many on both sides");
  std::vector<double> differences(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) differences[i] = a[i] - b[i];
  return mean_interval(differences, confidence);
}

}  // namespace ropewalk
