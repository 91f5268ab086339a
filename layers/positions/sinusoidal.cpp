#include "layers/positions/sinusoidal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/error.h"
#include "framework/ops/embedding.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

Tensor sinusoidal_table(int64_t length, int64_t d_model, double base, DType dtype, SinusoidalLayout layout) {
  std::vector<int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  return sinusoidal_table(positions, d_model, base, dtype, layout);
}

Tensor sinusoidal_table(std::span<const int64_t> positions, int64_t d_model, double base, DType dtype,
                        SinusoidalLayout layout) {
  require(d_model % 2 == 0, "sinusoids come in pairs: d_model = {} is odd", d_model);
  const int64_t half = d_model / 2;
  const bool interleaved = layout == SinusoidalLayout::interleaved;
  const auto steps = static_cast<double>(interleaved ? half : std::max<int64_t>(half - 1, 1));
  const auto length = static_cast<int64_t>(positions.size());
  Tensor table = Tensor::zeros({length, d_model}, dtype);
  for (int64_t r = 0; r < length; ++r) {
    const auto p = static_cast<double>(positions[static_cast<std::size_t>(r)]);
    for (int64_t i = 0; i < half; ++i) {
      const double angle = p * std::pow(base, -static_cast<double>(i) / steps);
      table.set(r * d_model + (interleaved ? 2 * i : i), std::sin(angle));
      table.set(r * d_model + (interleaved ? 2 * i + 1 : half + i), std::cos(angle));
    }
  }
  return table;
}

namespace {

class Sinusoidal : public PositionScheme {
 public:
  Sinusoidal(const PositionConfig& config, const PositionSizes& sizes)
      : base_(config.real("sinusoidal_base")),
        layout_(config.text("sinusoidal_layout") == "concatenated" ? SinusoidalLayout::concatenated
                                                                   : SinusoidalLayout::interleaved),
        d_model_(sizes.d_model),
        dtype_(sizes.dtype) {}

  void prepare(const PassPositions& positions) override {
    if (table_.shape.rank() == 0 || table_.shape[0] < positions.reach) {
      table_ = sinusoidal_table(table_length(positions.reach), d_model_, base_, dtype_, layout_);
    }
  }
  Var embed(Var x, const TokenPlaces& places) const override {
    return add_positions(x, x.tape->constant(table_), places);
  }

 private:
  double base_;
  SinusoidalLayout layout_;
  int64_t d_model_;
  DType dtype_;
  Tensor table_;
};

PositionFindings check(const PositionUse& use) {
  if (use.model.d_model % 2 == 0) return {};
  return {{.keys = {"model.d_model", "position.encoding"},
           .message =
               fmt::format("model.d_model = {} must be even with position.encoding = sinusoidal", use.model.d_model)}};
}

}  // namespace

PositionSchemeRow sinusoidal_scheme() {
  return {.info = {.name = "sinusoidal",
                   .summary = "fixed sines and cosines added to the embedding (Vaswani et al. 2017)",
                   .options = {{.key = "sinusoidal_base",
                                .default_value = 10000.0,
                                .help = "longest wavelength over 2 pi",
                                .minimum = 1.0,
                                .maximum = 1e12},
                               {.key = "sinusoidal_layout",
                                .default_value = std::string("interleaved"),
                                .help = "sine and cosine side by side, as the paper, or all sines before all cosines, "
                                        "with frequencies that end at 1 / base, as tensor2tensor and fairseq",
                                .choices = {"interleaved", "concatenated"}}},
                   .check = check},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Sinusoidal>(config, sizes);
          }};
}

}  // namespace ropewalk
