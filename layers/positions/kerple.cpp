#include "framework/ops/relative_bias.h"
#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

/// -amplitude_h ln(1 + rate_h |i - j|), both learned and kept positive by the optimizer.
class Kerple : public PositionScheme {
 public:
  Kerple(double eps, int64_t n_heads) : eps_(eps), n_heads_(n_heads) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    const InitRule up_to_two{.kind = InitRule::Kind::uniform, .low = eps_, .high = 2.0};
    const InitRule up_to_one{.kind = InitRule::Kind::uniform, .low = eps_, .high = 1.0};
    amplitude_.push_back(declarations.add(prefix + ".kerple.amplitude", {n_heads_}, Role::positive, up_to_two, eps_));
    rate_.push_back(declarations.add(prefix + ".kerple.rate", {n_heads_}, Role::positive, up_to_one, eps_));
  }
  void prepare(const PassPositions& positions) override { length_ = positions.reach; }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    const auto b = static_cast<std::size_t>(pass.block);
    Tape& tape = pass.tape;
    const auto made = offset_tables<1>(tape, pass.kept, length_, [&](int64_t length) {
      return std::array{kerple_bias(tape.parameter(amplitude_[b]), tape.parameter(rate_[b]), 2 * length - 1)};
    });
    options.offset_bias = made.tables[0];
    options.offset_origin = made.length - 1;
  }

 private:
  double eps_;
  int64_t n_heads_;
  int64_t length_ = 1;
  std::vector<int32_t> amplitude_;
  std::vector<int32_t> rate_;
};

}  // namespace

PositionSchemeRow kerple_scheme() {
  return {.info = {.name = "kerple",
                   .summary = "a learned logarithmic penalty on distance, two numbers a head (Chi et al. 2022)",
                   .options = {{.key = "kerple_eps",
                                .default_value = 0.01,
                                .help = "amplitude and rate are kept at least this great",
                                .minimum = 1e-9,
                                .maximum = 0.9}},
                   .numbers_an_offset = [](const PositionUse& use) { return static_cast<double>(use.model.n_heads); }},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Kerple>(config.real("kerple_eps"), sizes.n_heads);
          }};
}

}  // namespace ropewalk
