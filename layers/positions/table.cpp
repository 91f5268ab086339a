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
PositionSchemeRow kerple_scheme();

const std::vector<PositionSchemeRow>& position_schemes() {
  static const std::vector<PositionSchemeRow> rows = {none_scheme(), learned_scheme(), sinusoidal_scheme(),
                                                      shaw_scheme(), t5_scheme(),      alibi_scheme(),
                                                      rope_scheme(), kerple_scheme()};
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

PositionConfig default_position_config() {
  PositionConfig config;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const PositionOption& option : info.options) config.options.emplace(option.key, option.default_value);
  }
  return config;
}

std::unique_ptr<PositionScheme> make_position_scheme(const PositionConfig& config, const PositionSizes& sizes) {
  for (const PositionSchemeRow& row : position_schemes()) {
    if (row.info.name == config.encoding) return row.make(config, sizes);
  }
  fail("position.encoding = {} is not a scheme of this version", config.encoding);
}

}  // namespace ropewalk
