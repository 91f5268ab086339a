#include "layers/positions/sinusoidal.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/error.h"
#include "framework/ops/embedding.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

Tensor sinusoidal_table(int64_t length, int64_t d_model, double base, DType dtype) {
  require(d_model % 2 == 0, "sinusoids come in pairs: d_model = {} is odd", d_model);
  Tensor table = Tensor::zeros({length, d_model}, dtype);
  for (int64_t p = 0; p < length; ++p) {
    for (int64_t i = 0; i < d_model; i += 2) {
      const double angle =
          static_cast<double>(p) * std::pow(base, -static_cast<double>(i) / static_cast<double>(d_model));
      table.set(p * d_model + i, std::sin(angle));
      table.set(p * d_model + i + 1, std::cos(angle));
    }
  }
  return table;
}

namespace {

class Sinusoidal : public PositionScheme {
 public:
  Sinusoidal(double base, const PositionSizes& sizes) : base_(base), d_model_(sizes.d_model), dtype_(sizes.dtype) {}

  void prepare(int64_t length) override {
    if (table_.shape.rank() == 0 || table_.shape[0] < length)
      table_ = sinusoidal_table(table_length(length), d_model_, base_, dtype_);
  }
  Var embed(Var x, const TokenPlaces& places) const override {
    return add_positions(x, x.tape->constant(table_), places);
  }

 private:
  double base_;
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
                                .maximum = 1e12}},
                   .check = check},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Sinusoidal>(config.real("sinusoidal_base"), sizes);
          }};
}

}  // namespace ropewalk
