#include "layers/positions/alibi.h"

#include <bit>
#include <cmath>

#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

std::vector<double> alibi_slopes(int64_t n_heads) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n_heads)));
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < n_heads; i += 2) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(2 * power)));
  }
  return slopes;
}

namespace {

/// A fixed penalty -m_h |i - j| on the scaled score.
class Alibi : public PositionScheme {
 public:
  explicit Alibi(const PositionSizes& sizes) : n_heads_(sizes.n_heads), dtype_(sizes.dtype) {}

  void prepare(int64_t length) override {
    if (bias_.shape.rank() == 2 && bias_.shape[1] >= 2 * length - 1) return;
    length = table_length(length);
    const int64_t n = 2 * length - 1;
    bias_ = Tensor::zeros({n_heads_, n}, dtype_);
    const std::vector<double> slopes = alibi_slopes(n_heads_);
    for (int64_t h = 0; h < n_heads_; ++h) {
      for (int64_t c = 0; c < n; ++c) {
        bias_.set(h * n + c, -slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(c - (length - 1))));
      }
    }
  }
  void bias(Tape& tape, int64_t, AttentionOptions& options) const override {
    options.offset_bias = tape.constant(bias_);
    options.offset_origin = (bias_.shape[1] - 1) / 2;
  }

 private:
  int64_t n_heads_;
  DType dtype_;
  Tensor bias_;
};

}  // namespace

PositionSchemeRow alibi_scheme() {
  return {
      .info = {.name = "alibi", .summary = "a fixed linear penalty on distance, one slope a head (Press et al. 2022)"},
      .make = [](const PositionConfig&, const PositionSizes& sizes) { return std::make_unique<Alibi>(sizes); }};
}

}  // namespace ropewalk
