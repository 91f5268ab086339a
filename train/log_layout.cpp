#include "train/log_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/error.h"

namespace ropewalk {
namespace {

constexpr const char* kBlocks = "blocks.";

/// "attention.query.weight" -> "attention.query"
std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

int64_t index_in(std::vector<std::string>& kinds, const std::string& kind) {
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found == kinds.end()) {
    kinds.push_back(kind);
    return static_cast<int64_t>(kinds.size()) - 1;
  }
  return found - kinds.begin();
}

void roots(std::span<const double> sums, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(std::sqrt(sums[i]));
}

}  // namespace

LogLayout make_log_layout(const ParameterSet& parameters, int64_t n_layers) {
  LogLayout layout{.stem_kinds = {"token_embedding", "position_embedding", "relative_bias", "final_norm", "lm_head"},
                   .n_layers = n_layers};
  for (const Parameter& parameter : parameters.all()) {
    LogLayout::Place place;
    if (parameter.name.starts_with(kBlocks)) {
      const std::string rest = parameter.name.substr(std::string_view(kBlocks).size());
      const std::size_t dot = rest.find('.');
      place.layer = std::stoll(rest.substr(0, dot));
      place.kind = index_in(layout.layer_kinds, module_of(rest.substr(dot + 1)));
    } else {
      place.kind = index_in(layout.stem_kinds, module_of(parameter.name));
    }
    layout.places.push_back(place);
  }
  layout.layer_kinds.emplace_back("block");
  layout.layer_present.assign(layout.cells(), false);
  layout.stem_present.assign(layout.stem_kinds.size(), false);
  for (const LogLayout::Place& place : layout.places) {
    if (place.layer < 0) {
      layout.stem_present[static_cast<std::size_t>(place.kind)] = true;
      continue;
    }
    const std::size_t row = static_cast<std::size_t>(place.layer) * layout.layer_kinds.size();
    layout.layer_present[row + static_cast<std::size_t>(place.kind)] = true;
    layout.layer_present[row + layout.layer_kinds.size() - 1] = true;
  }
  return layout;
}

void layer_norms(const LogLayout& layout, std::span<const double> squared, std::span<float> layers) {
  require(layers.size() == layout.cells() && squared.size() == layout.places.size(), "layer_norms: sizes differ");
  const std::size_t kinds = layout.layer_kinds.size();
  thread_local std::vector<double> sums;
  sums.assign(layers.size(), 0.0);
  for (std::size_t i = 0; i < squared.size(); ++i) {
    const LogLayout::Place& place = layout.places[i];
    if (place.layer < 0) continue;
    const std::size_t row = static_cast<std::size_t>(place.layer) * kinds;
    sums[row + static_cast<std::size_t>(place.kind)] += squared[i];
    sums[row + kinds - 1] += squared[i];
  }
  roots(sums, layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layout.layer_present[i]) layers[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

void stem_norms(const LogLayout& layout, std::span<const double> squared, std::span<float> stem) {
  require(stem.size() == layout.stem_kinds.size() && squared.size() == layout.places.size(),
          "stem_norms: sizes differ");
  thread_local std::vector<double> sums;
  sums.assign(stem.size(), 0.0);
  for (std::size_t i = 0; i < squared.size(); ++i) {
    const LogLayout::Place& place = layout.places[i];
    if (place.layer < 0) sums[static_cast<std::size_t>(place.kind)] += squared[i];
  }
  roots(sums, stem);
  for (std::size_t i = 0; i < stem.size(); ++i) {
    if (!layout.stem_present[i]) stem[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace ropewalk
