#include "train/log_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "framework/error.h"

namespace ropewalk {
namespace {

constexpr const char* kEncoder = "encoder.";
constexpr std::string_view kBlocks = "blocks.";

/// "attention.query.weight" -> "attention.query"
std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

/// "encoder.blocks.3.attention.query.weight", taken apart.
struct NameInBlock {
  std::string stack;  ///< "encoder." or "", the decoder or the only stack
  int64_t layer = 0;
  std::string module;
};

std::optional<NameInBlock> name_in_block(const std::string& name) {
  const std::string stack = name.starts_with(kEncoder) ? kEncoder : "";
  const std::string_view rest = std::string_view(name).substr(stack.size());
  if (!rest.starts_with(kBlocks)) return std::nullopt;
  const std::string tail(rest.substr(kBlocks.size()));
  const std::size_t dot = tail.find('.');
  return NameInBlock{
      .stack = stack, .layer = std::stoll(tail.substr(0, dot)), .module = module_of(tail.substr(dot + 1))};
}

/// The cells that a parameter of a block counts in: its module's and its block's.
std::array<std::size_t, 2> cells_of(const LogLayout& layout, const LogLayout::Place& place) {
  const auto row = static_cast<std::size_t>(place.layer) * layout.layer_kinds.size();
  const auto kind = static_cast<std::size_t>(place.kind);
  return {row + kind, row + static_cast<std::size_t>(layout.totals[kind])};
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
  const bool pairs = std::any_of(parameters.all().begin(), parameters.all().end(),
                                 [](const Parameter& p) { return p.name.starts_with(kEncoder); });
  LogLayout layout{.n_layers = n_layers};
  layout.stem_kinds = {"token_embedding", "position_embedding", "relative_bias", "final_norm", "lm_head"};
  if (pairs) {
    layout.stem_kinds = {"token_embedding",
                         "encoder.position_embedding",
                         "encoder.relative_bias",
                         "encoder.final_norm",
                         "position_embedding",
                         "relative_bias",
                         "final_norm",
                         "lm_head"};
  }
  // A stack's kinds lie together: those of its modules, and then its blocks as a whole.
  for (const std::string& stack : pairs ? std::vector<std::string>{kEncoder, ""} : std::vector<std::string>{""}) {
    const std::size_t first = layout.layer_kinds.size();
    for (const Parameter& parameter : parameters.all()) {
      const auto name = name_in_block(parameter.name);
      if (name && name->stack == stack) index_in(layout.layer_kinds, stack + name->module);
    }
    const auto total = static_cast<int64_t>(layout.layer_kinds.size());
    layout.layer_kinds.push_back(stack + "block");
    layout.totals.resize(layout.layer_kinds.size(), total);
    for (std::size_t kind = first; kind < layout.totals.size(); ++kind) layout.totals[kind] = total;
  }
  for (const Parameter& parameter : parameters.all()) {
    LogLayout::Place place;
    if (const auto name = name_in_block(parameter.name)) {
      place.layer = name->layer;
      place.kind = index_in(layout.layer_kinds, name->stack + name->module);
    } else {
      place.kind = index_in(layout.stem_kinds, module_of(parameter.name));
    }
    layout.places.push_back(place);
  }
  layout.layer_present.assign(layout.cells(), false);
  layout.stem_present.assign(layout.stem_kinds.size(), false);
  for (const LogLayout::Place& place : layout.places) {
    if (place.layer < 0) {
      layout.stem_present[static_cast<std::size_t>(place.kind)] = true;
      continue;
    }
    for (const std::size_t cell : cells_of(layout, place)) layout.layer_present[cell] = true;
  }
  return layout;
}

void layer_norms(const LogLayout& layout, std::span<const double> squared, std::span<float> layers) {
  require(layers.size() == layout.cells() && squared.size() == layout.places.size(), "layer_norms: sizes differ");
  thread_local std::vector<double> sums;
  sums.assign(layers.size(), 0.0);
  for (std::size_t i = 0; i < squared.size(); ++i) {
    const LogLayout::Place& place = layout.places[i];
    if (place.layer < 0) continue;
    for (const std::size_t cell : cells_of(layout, place)) sums[cell] += squared[i];
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
