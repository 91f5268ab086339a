#include "train/bench/rounds.h"

#include <algorithm>

namespace ropewalk {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<Timing> time_in_rounds(std::span<const std::function<double()>> alternatives, double seconds,
                                   int64_t least_rounds) {
  if (alternatives.empty()) return {};
  for (const auto& run : alternatives) run();
  std::vector<std::vector<double>> times(alternatives.size());
  std::vector<std::vector<double>> ratios(alternatives.size());
  double total = 0;
  for (int64_t round = 0; round < least_rounds || total < seconds; ++round) {
    for (std::size_t i = 0; i < alternatives.size(); ++i) {
      times[i].push_back(alternatives[i]());
      ratios[i].push_back(times[i].back() / times[0].back());
      total += times[i].back();
    }
  }
  std::vector<Timing> out;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    const auto [least, greatest] = std::minmax_element(times[i].begin(), times[i].end());
    out.push_back({.median = median(times[i]),
                   .least = *least,
                   .greatest = *greatest,
                   .ratio = median(ratios[i]),
                   .rounds = static_cast<int64_t>(times[i].size())});
  }
  return out;
}

}  // namespace ropewalk
