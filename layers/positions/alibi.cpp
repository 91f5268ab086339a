#include "layers/positions/alibi.h"

#include <bit>
#include <cmath>

#include "framework/ops/relative_bias.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

std::vector<double> alibi_slopes(int64_t n_heads, AlibiSlopes convention) {
  const auto slope = [](int64_t h, int64_t heads) {
    return std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads));
  };
  const int64_t whole = convention == AlibiSlopes::geometric
                            ? n_heads
                            : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n_heads)));
  std::vector<double> slopes;
  for (int64_t h = 1; h <= whole; ++h) slopes.push_back(slope(h, whole));
  for (int64_t h = 1; static_cast<int64_t>(slopes.size()) < n_heads; h += 2) slopes.push_back(slope(h, 2 * whole));
  return slopes;
}

namespace {

/// A penalty -m_h |i - j| on the scaled score: fixed and the same in every layer, or with learned slopes of each layer.
class Alibi : public PositionScheme {
 public:
  Alibi(const PositionConfig& config, const PositionSizes& sizes)
      : slopes_(alibi_slopes(sizes.n_heads, config.text("alibi_slopes") == "geometric" ? AlibiSlopes::geometric
                                                                                       : AlibiSlopes::closest_power)),
        learned_(config.flag("alibi_learned")),
        dtype_(sizes.dtype) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    if (!learned_) return;
    // Below 0 a slope would reward distance, and scores would grow without bound beyond the trained length.
    learned_slopes_.push_back(declarations.add(prefix + ".alibi.slopes", {n_heads()}, Role::positive,
                                               {.kind = InitRule::Kind::given, .values = slopes_}, 0.0));
  }
  void prepare(const PassPositions& positions) override {
    if (learned_) {
      length_ = positions.reach;
      return;
    }
    if (bias_.shape.rank() == 2 && bias_.shape[1] >= 2 * positions.reach - 1) return;
    length_ = table_length(positions.reach);
    const int64_t n = 2 * length_ - 1;
    bias_ = Tensor::zeros({n_heads(), n}, dtype_);
    for (int64_t h = 0; h < n_heads(); ++h) {
      for (int64_t c = 0; c < n; ++c) {
        bias_.set(h * n + c, -slopes_[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(c - (length_ - 1))));
      }
    }
  }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    options.offset_origin = length_ - 1;
    options.offset_bias = learned_
                              ? alibi_bias(pass.tape.parameter(learned_slopes_[static_cast<std::size_t>(pass.block)]),
                                           1 - length_, 2 * length_ - 1)
                              : pass.tape.constant(bias_);
  }

 private:
  int64_t n_heads() const { return static_cast<int64_t>(slopes_.size()); }

  std::vector<double> slopes_;
  bool learned_;
  DType dtype_;
  int64_t length_ = 1;
  Tensor bias_;
  std::vector<int32_t> learned_slopes_;
};

}  // namespace

PositionSchemeRow alibi_scheme() {
  return {.info = {.name = "alibi",
                   .summary = "a linear penalty on distance, one slope a head (Press et al. 2022)",
                   .options = {{.key = "alibi_slopes",
                                .default_value = std::string("closest_power"),
                                .help = "of head counts that are no power of two: those of the powers around it, as "
                                        "the published code, or 2^(-8 h / n_heads), as the paper's formula",
                                .choices = {"closest_power", "geometric"}},
                               {.key = "alibi_learned",
                                .default_value = false,
                                .help = "slopes are learned, those of each layer, and start at the fixed ones; they "
                                        "stay at least 0"}},
                   .numbers_an_offset = [](const PositionUse& use) { return static_cast<double>(use.model.n_heads); }},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Alibi>(config, sizes);
          }};
}

}  // namespace ropewalk
