#include "train/bench/rounds.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ropewalk {
namespace {

/// The value below which `share` of the sorted values lie.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.median = quantile(values, 0.5),
          .lower = quantile(values, 0.25),
          .upper = quantile(values, 0.75),
          .least = values.front(),
          .greatest = values.back()};
}

double median(std::vector<double> values) {
  return spread_of(std::move(values)).median;
}

std::string quartiles_text(const Spread& spread, int decimals) {
  return fmt::format("{:.{}f} to {:.{}f}", spread.lower, decimals, spread.upper, decimals);
}

std::vector<std::vector<double>> time_in_rounds(std::span<const std::function<double()>> alternatives, double seconds,
                                                int64_t least_rounds) {
  std::vector<std::vector<double>> times(alternatives.size());
  if (alternatives.empty()) return times;
  for (const auto& run : alternatives) run();
  double total = 0;
  for (int64_t round = 0; round < least_rounds || total < seconds; ++round) {
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
      times[i].push_back(alternatives[i]());
      total += times[i].back();
    }
  }
  return times;
}

Spread paired_ratio(std::span<const double> seconds, std::span<const double> over, double factor) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < seconds.size(); ++i) ratios.push_back(factor * seconds[i] / over[i]);
  return spread_of(std::move(ratios));
}

}  // namespace ropewalk
