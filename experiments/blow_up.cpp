#include "experiments/blow_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::size_t kRowsBefore = 100;
constexpr std::size_t kFewestBefore = 10;
constexpr std::size_t kLayersBefore = 30;  ///< rows of /layers that make a module's median
constexpr std::size_t kFewestLayers = 3;
constexpr std::size_t kLayersAtOnset = 5;  ///< rows of /layers before the step in which a module may have begun

/// Of the finite ones among them; NaN where there are none.
double median(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The value over the median of those before; infinite where it is no number.
double times_of(double value, const std::vector<double>& before) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
  const double usual = median(before);
  return usual > 0 ? value / usual : 0.0;
}

/// "blocks.3.ffn.down", "encoder.blocks.0.attention.query"
std::string module_name(std::size_t layer, const std::string& kind) {
  constexpr std::string_view kEncoder = "encoder.";
  const bool encoder = kind.starts_with(kEncoder);
  return fmt::format("{}blocks.{}.{}", encoder ? kEncoder : "", layer, kind.substr(encoder ? kEncoder.size() : 0));
}

void find_module(const LogContents& log, const LayerNorms& norms, BlowUp& found) {
  const std::vector<int64_t>& steps = log.tables.layers.step;
  const std::size_t kinds = log.schema.layer_kinds.size();
  const std::size_t width = static_cast<std::size_t>(log.schema.n_layers) * kinds;
  const auto at = static_cast<std::size_t>(std::lower_bound(steps.begin(), steps.end(), found.step) - steps.begin());
  const std::size_t onset = at - std::min(at, kLayersAtOnset);
  const std::size_t begin = onset - std::min(onset, kLayersBefore);
  const std::size_t end = std::min(at + 1, steps.size());
  if (width == 0 || onset - begin < kFewestLayers) return;
  const std::vector<float> values = norms(begin, end - begin);
  const auto value = [&](std::size_t row, std::size_t cell) {
    return static_cast<double>(values[(row - begin) * width + cell]);
  };
  for (std::size_t cell = 0; cell < width; ++cell) {
    const std::string& kind = log.schema.layer_kinds[cell % kinds];
    if (kind == "block" || kind.ends_with(".block")) continue;  // the sum of the others
    std::vector<double> before;
    for (std::size_t row = begin; row < onset; ++row) before.push_back(value(row, cell));
    if (std::isnan(median(before))) continue;  // absent
    for (std::size_t row = onset; row < end; ++row) {
      const double times = times_of(value(row, cell), before);
      if (times < BlowUp::kTimes) continue;
      const bool earlier = found.module.empty() || steps[row] < found.module_step;
      const bool greater = steps[row] == found.module_step && times > found.module_times;
      if (earlier || greater) {
        found.module = module_name(cell / kinds, kind);
        found.module_step = steps[row];
        found.module_times = times;
      }
      break;
    }
  }
}

/// The blow-up without its module.
std::optional<BlowUp> first_spike(const TrainTable& train) {
  for (std::size_t row = kFewestBefore; row < train.grad_norm.size(); ++row) {
    const auto begin = train.grad_norm.begin() + static_cast<std::ptrdiff_t>(row - std::min(row, kRowsBefore));
    const auto here = train.grad_norm.begin() + static_cast<std::ptrdiff_t>(row);
    const auto value = static_cast<double>(train.grad_norm[row]);
    // A median costs more than a look at the least.
    if (std::isfinite(value) && value < BlowUp::kTimes * static_cast<double>(*std::min_element(begin, here))) continue;
    const double times = times_of(value, {begin, here});
    if (times >= BlowUp::kTimes) return BlowUp{.step = train.step[row], .times = times};
  }
  return std::nullopt;
}

std::string times_text(double times) {
  return std::isfinite(times) ? fmt::format("{:.3g} times the median before", times) : "not finite";
}

}  // namespace

std::optional<BlowUp> first_blow_up(const LogContents& log, const LayerNorms& norms) {
  std::optional<BlowUp> found = first_spike(log.tables.train);
  if (found) find_module(log, norms, *found);
  return found;
}

std::string blow_up_text(const BlowUp& blow_up) {
  std::string out = fmt::format("gradients blew up at step {} ({})", blow_up.step, times_text(blow_up.times));
  if (blow_up.module.empty()) return out;
  return out + fmt::format(", first in {} (step {}, {})", printable(blow_up.module), blow_up.module_step,
                           times_text(blow_up.module_times));
}

}  // namespace ropewalk
