#include "layers/positions/xpos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "framework/error.h"
#include "layers/positions/rope.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

std::vector<double> xpos_rates(int64_t dims, double gamma, double scale_base) {
  std::vector<double> rates;
  for (int64_t i = 0; i < dims; i += 2) {
    const double zeta = (static_cast<double>(i) / static_cast<double>(dims) + gamma) / (1 + gamma);
    rates.push_back(std::log(zeta) / scale_base);
  }
  return rates;
}

int64_t xpos_greatest_length(const std::vector<double>& rates, DType dtype) {
  if (rates.empty()) return 0;
  const int exponents =
      dtype == DType::f32 ? std::numeric_limits<float>::max_exponent : std::numeric_limits<double>::max_exponent;
  const double steepest = -*std::min_element(rates.begin(), rates.end());
  const double half = std::numbers::ln2 * exponents / 4 / steepest;
  // What the evaluation can ask for is far below; 0 says that there is no limit.
  return half > 1e12 ? 0 : std::max<int64_t>(1, 2 * static_cast<int64_t>(half));
}

namespace {

/// RoPE under which a pair of columns counts less the farther apart query and key are, the fast ones soonest.
class Xpos : public PositionScheme {
 public:
  Xpos(const PositionConfig& config, const PositionSizes& sizes)
      : dims_(config.integer("rope_dims")),
        theta_(config.real("rope_theta")),
        pairing_(rope_pairing(config)),
        rates_(xpos_rates(dims_, config.real("xpos_gamma"), config.real("xpos_scale_base"))),
        dtype_(sizes.dtype) {}

  void prepare(const PassPositions& positions) override {
    const int64_t length = positions.reach;
    const int64_t most = greatest_length();
    require(most == 0 || length <= most,
            "a sequence of {} positions, but xpos stays in the range of {} up to {}; raise position.xpos_scale_base or "
            "position.xpos_gamma, or set train.dtype = f64",
            length, name_of(dtype_), most);
    const std::vector<double> inverse = rope_frequencies({.dims = dims_, .theta = theta_}).inverse;
    if (!positions.at.empty()) {
      const RotaryScale scale{.rates = rates_, .centre = static_cast<double>(length - 1) / 2};
      table_ = make_rotary_table(inverse, 1.0, positions.at, pairing_, dtype_, scale);
      counted_ = 0;
      return;
    }
    // A function of the length alone, whatever was prepared before: the centre of the table moves with its length.
    const int64_t rows = most == 0 ? table_length(length) : std::min(table_length(length), most);
    if (counted_ == rows) return;
    counted_ = rows;
    table_ = make_rotary_table(inverse, 1.0, 0, rows, pairing_, dtype_,
                               {.rates = rates_, .centre = static_cast<double>(rows - 1) / 2});
  }
  const RotaryTable* rotation() const override { return &table_; }
  int64_t greatest_length() const override { return xpos_greatest_length(rates_, dtype_); }
  std::string limited_by() const override { return "position.xpos_scale_base, position.xpos_gamma and train.dtype"; }

 private:
  int64_t dims_;
  double theta_;
  RopePairing pairing_;
  std::vector<double> rates_;
  DType dtype_;
  int64_t counted_ = 0;  ///< positions 0, 1, ... of the table; 0: they are others
  RotaryTable table_;
};

PositionFindings check(const PositionUse& use) {
  PositionFindings found = check_rotary_width(use);
  if (!use.causal) {
    found.push_back({.keys = {"attention.causal", "position.encoding"},
                     .message = "attention.causal = false with position.encoding = xpos: what a query sees after it "
                                "counts more the farther away it is",
                     .warning = true});
  }
  return found;
}

std::vector<PositionFact> describe(const PositionUse& use) {
  const PositionConfig& p = use.position;
  const std::vector<double> rates = xpos_rates(p.integer("rope_dims"), p.real("xpos_gamma"), p.real("xpos_scale_base"));
  std::vector<PositionFact> facts = {{"rotation", rotation_text(use)}};
  if (!rates.empty()) {
    facts.push_back({"xpos decay", fmt::format("halves within {:.4g} (fastest pair) to {:.4g} (slowest) positions",
                                               -std::numbers::ln2 / rates.front(), -std::numbers::ln2 / rates.back())});
  }
  return facts;
}

std::vector<PositionOption> options() {
  std::vector<PositionOption> out = rotary_options();
  out.push_back({.key = "xpos_gamma",
                 .default_value = 0.4,
                 .help = "the greater, the more alike all pairs fade: zeta_m = (2m/dims + gamma) / (1 + gamma)",
                 .minimum = 1e-6,
                 .maximum = 1e6,
                 .fixes_parameters = false});
  out.push_back({.key = "xpos_scale_base",
                 .default_value = 512.0,
                 .help = "positions over which pair m fades to zeta_m",
                 .minimum = 1e-3,
                 .maximum = 1e12,
                 .fixes_parameters = false});
  return out;
}

}  // namespace

PositionSchemeRow xpos_scheme() {
  return {.info = {.name = "xpos",
                   .summary = "rope under which far keys fade, fast pairs of columns first (Sun et al. 2022)",
                   .options = options(),
                   .rotates = true,
                   .check = check,
                   .describe = describe},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Xpos>(config, sizes);
          }};
}

}  // namespace ropewalk
