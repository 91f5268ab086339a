#include <algorithm>

#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

/// Learned vectors a_r, r = clip(j - i, -c, c) + c, added to the keys, and on request others to the values; one table
/// of each a layer, shared by the heads.
class Shaw : public PositionScheme {
 public:
  Shaw(int64_t clip, bool values, int64_t d_head) : clip_(clip), values_(values), d_head_(d_head) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    const auto table = [&](const char* name) {
      return declarations.add(prefix + name, {2 * clip_ + 1, d_head_}, Role::other,
                              {.kind = InitRule::Kind::embedding});
    };
    key_tables_.push_back(table(".relative_keys.weight"));
    if (values_) value_tables_.push_back(table(".relative_values.weight"));
  }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    const auto b = static_cast<std::size_t>(pass.block);
    options.relative_keys = pass.tape.parameter(key_tables_[b]);
    if (values_) options.relative_values = pass.tape.parameter(value_tables_[b]);
  }

 private:
  int64_t clip_;
  bool values_;
  int64_t d_head_;
  std::vector<int32_t> key_tables_;
  std::vector<int32_t> value_tables_;
};

PositionFindings check(const PositionUse& use) {
  return warn_beyond_training(use, "shaw_clip");
}

double relative_vectors(const PositionUse& use, double visible_keys) {
  const auto clip = static_cast<double>(use.position.integer("shaw_clip"));
  return std::min(visible_keys, use.causal ? clip + 1 : 2 * clip + 1) * (use.position.flag("shaw_values") ? 2 : 1);
}

}  // namespace

PositionSchemeRow shaw_scheme() {
  return {.info = {.name = "shaw",
                   .summary = "learned vectors for clipped offsets, added to the keys (Shaw et al. 2018)",
                   .options = {{.key = "shaw_clip",
                                .default_value = int64_t{16},
                                .help = "greatest offset with a vector of its own",
                                .minimum = 1,
                                .maximum = 65536},
                               {.key = "shaw_values",
                                .default_value = false,
                                .help = "vectors for clipped offsets are added to the values, too"}},
                   .check = check,
                   .relative_vectors = relative_vectors},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Shaw>(config.integer("shaw_clip"), config.flag("shaw_values"), sizes.d_head);
          }};
}

}  // namespace ropewalk
