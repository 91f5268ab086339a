#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "framework/error.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

PositionSchemeRow none_scheme();
PositionSchemeRow learned_scheme();
PositionSchemeRow sinusoidal_scheme();
PositionSchemeRow shaw_scheme();
PositionSchemeRow t5_scheme();
PositionSchemeRow alibi_scheme();
PositionSchemeRow rope_scheme();
PositionSchemeRow xpos_scheme();
PositionSchemeRow kerple_scheme();
PositionSchemeRow fire_scheme();
PositionSchemeRow xl_scheme();

const std::vector<PositionSchemeRow>& position_schemes() {
  static const std::vector<PositionSchemeRow> rows = {
      none_scheme(), learned_scheme(), sinusoidal_scheme(), shaw_scheme(), t5_scheme(), alibi_scheme(),
      rope_scheme(), xpos_scheme(),    kerple_scheme(),     fire_scheme(), xl_scheme()};
  return rows;
}

const std::vector<PositionSchemeInfo>& position_scheme_infos() {
  static const std::vector<PositionSchemeInfo> infos = [] {
    std::vector<PositionSchemeInfo> out;
    for (const PositionSchemeRow& row : position_schemes()) out.push_back(row.info);
    return out;
  }();
  return infos;
}

const PositionSchemeInfo* find_position_scheme(const std::string& name) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

void derive_position_options(PositionConfig& config, int64_t d_head) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const PositionOption& option : info.options) {
      const auto found = config.options.find(option.key);
      if (option.derived_from == DerivedFrom::nothing || found == config.options.end()) continue;
      auto& value = std::get<int64_t>(found->second);
      if (value == 0) value = option.derived_from == DerivedFrom::d_head ? d_head : config.max_length;
    }
  }
}

PositionUse position_use(const ArchitectureConfig& config) {
  PositionUse use{.position = config.position, .model = config.model, .causal = config.attention.causal};
  // What is rotated has this width; an odd one check_attention() reports.
  const int64_t width = rotary_width(config.model, config.attention);
  if (config.attention.kind == AttentionKind::mla) use.model.d_head = width % 2 == 0 ? width : 0;
  return use;
}

PositionFindings check_position(const PositionUse& use) {
  const PositionSchemeInfo* info = find_position_scheme(use.position.encoding);
  return info == nullptr || info->check == nullptr ? PositionFindings{} : info->check(use);
}

std::vector<PositionFact> describe_position(const PositionUse& use) {
  const PositionSchemeInfo* info = find_position_scheme(use.position.encoding);
  return info == nullptr || info->describe == nullptr ? std::vector<PositionFact>{} : info->describe(use);
}

PositionFindings warn_beyond_training(const PositionUse& use, const std::string& key) {
  const int64_t reach = use.position.integer(key);
  if (use.context_length == 0 || reach <= std::max(use.context_length, use.position.randomize_to)) return {};
  return {{.keys = {"position." + key, "train.context_length"},
           .message = fmt::format("position.{} = {} exceeds train.context_length = {}; what stands for farther offsets "
                                  "never trains",
                                  key, reach, use.context_length),
           .warning = true}};
}

PositionConfig default_position_config() {
  PositionConfig config;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const PositionOption& option : info.options) config.options.emplace(option.key, option.default_value);
  }
  return config;
}

std::unique_ptr<PositionScheme> make_position_scheme(const PositionConfig& config, const PositionSizes& sizes) {
  for (const PositionSchemeRow& row : position_schemes()) {
    if (row.info.name != config.encoding) continue;
    PositionConfig filled = config;
    derive_position_options(filled, sizes.d_head);
    return row.make(filled, sizes);
  }
  fail("position.encoding = {} is not a scheme of this version", config.encoding);
}

}  // namespace ropewalk
