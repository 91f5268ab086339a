#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

/// Learned vectors a_r, r = clip(j - i, -c, c) + c, added to the keys; one table a layer, shared by the heads.
class Shaw : public PositionScheme {
 public:
  Shaw(int64_t clip, int64_t d_head) : clip_(clip), d_head_(d_head) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    tables_.push_back(declarations.add(prefix + ".relative_keys.weight", {2 * clip_ + 1, d_head_}, Role::other,
                                       {.kind = InitRule::Kind::embedding}));
  }
  void bias(Tape& tape, int64_t block, AttentionOptions& options) const override {
    options.relative_keys = tape.parameter(tables_[static_cast<std::size_t>(block)]);
  }

 private:
  int64_t clip_;
  int64_t d_head_;
  std::vector<int32_t> tables_;
};

PositionFindings check(const PositionUse& use) {
  return warn_beyond_training(use, "shaw_clip");
}

}  // namespace

PositionSchemeRow shaw_scheme() {
  return {.info = {.name = "shaw",
                   .summary = "learned vectors for clipped offsets, added to the keys (Shaw et al. 2018)",
                   .options = {{.key = "shaw_clip",
                                .default_value = int64_t{16},
                                .help = "greatest offset with a vector of its own",
                                .minimum = 1,
                                .maximum = 65536}},
                   .check = check},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Shaw>(config.integer("shaw_clip"), sizes.d_head);
          }};
}

}  // namespace ropewalk
