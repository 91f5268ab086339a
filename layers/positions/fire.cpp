#include "framework/ops/fire.h"

#include <cmath>

#include <fmt/format.h>

#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

// As published. L_multiplier starts at 1.
constexpr double kC = 0.1;
constexpr double kLeastC = 1e-6;

/// MLP_h(psi(|i - j|) / psi(max(i, L))) with psi(x) = ln(1 + c x) and L = threshold L_multiplier, added to the scores;
/// all layers have their own. The optimizer keeps c positive and L at least 1, in place of the published code's
/// absolute values and the 1e-6 that it adds to the denominator.
class Fire : public PositionScheme {
 public:
  Fire(const PositionConfig& config, const PositionSizes& sizes)
      : width_(config.integer("fire_width")),
        threshold_(static_cast<double>(config.integer("fire_threshold"))),
        n_heads_(sizes.n_heads) {}

  void declare_in_block(const Declarations& declarations, const std::string& prefix) override {
    const auto number = [&](const char* name, double first, double least) {
      return declarations.add(prefix + ".fire." + name, {1}, Role::positive,
                              {.kind = InitRule::Kind::given, .values = {first}}, least);
    };
    // Whatever model.init says, as torch.nn.Linear draws them: with all hidden biases at 0, as some would have it, the
    // MLP would be a straight line.
    const auto within = [](int64_t in) {
      const double bound = 1 / std::sqrt(static_cast<double>(in));
      return InitRule{.kind = InitRule::Kind::uniform, .low = -bound, .high = bound};
    };
    const auto layer = [&](const std::string& name, int64_t in, int64_t out) {
      const std::string full = prefix + ".fire.mlp." + name;
      const int32_t weight = declarations.add(full + ".weight", {out, in}, Role::weight, within(in));
      return Layer{weight, declarations.add(full + ".bias", {out}, Role::other, within(in))};
    };
    // One after the other, so that names come in the order of the formula.
    const int32_t c = number("c", kC, kLeastC);
    const int32_t multiplier = number("L_multiplier", 1.0, 1.0 / threshold_);
    const Layer hidden = layer("hidden", 1, width_);
    blocks_.push_back({c, multiplier, hidden, layer("output", width_, n_heads_)});
  }
  void prepare(const PassPositions& positions) override { length_ = positions.reach; }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    Tape& tape = pass.tape;
    const Block& block = blocks_[static_cast<std::size_t>(pass.block)];
    const auto made = offset_tables<3>(tape, pass.kept, length_, [&](int64_t length) {
      const Var c = tape.parameter(block.c);
      return std::array{log_distance(c, 1 - length, 2 * length - 1),
                        log_normalizer(c, tape.parameter(block.multiplier), threshold_, length),
                        relu_lines(tape.parameter(block.hidden.weight), tape.parameter(block.hidden.bias),
                                   tape.parameter(block.output.weight), tape.parameter(block.output.bias))};
    });
    options.distance_bias = {made.tables[0], made.tables[1], made.tables[2]};
    options.offset_origin = made.length - 1;
  }

 private:
  struct Layer {
    int32_t weight = -1;
    int32_t bias = -1;
  };
  struct Block {
    int32_t c = -1;
    int32_t multiplier = -1;
    Layer hidden, output;
  };

  int64_t width_;
  double threshold_;
  int64_t n_heads_;
  int64_t length_ = 1;
  std::vector<Block> blocks_;
};

std::vector<PositionFact> describe(const PositionUse& use) {
  const int64_t threshold = use.position.integer("fire_threshold");
  const bool trains = use.context_length == 0 || std::max(use.context_length, use.position.randomize_to) > threshold;
  return {{"fire", fmt::format("an MLP of {} hidden units of ln(1 + c |i - j|) / ln(1 + c max(i, L)), c {} and L {} at "
                               "first{}",
                               use.position.integer("fire_width"), kC, threshold,
                               trains ? ""
                                      : ", which no position in training exceeds: until L is learned below, "
                                        "the bias depends on the offset alone")}};
}

}  // namespace

PositionSchemeRow fire_scheme() {
  return {
      .info = {.name = "fire",
               .summary = "a learned function of the logarithm of distance over that of the query's position (FIRE, "
                          "Li et al. 2024)",
               .options = {{.key = "fire_width",
                            .default_value = int64_t{32},
                            .help = "hidden units of the MLP of each layer",
                            .minimum = 1,
                            .maximum = 4096},
                           {.key = "fire_threshold",
                            .default_value = int64_t{512},
                            .help = "position up to which queries measure distances alike (L at first; it is "
                                    "learned); beyond, distances count relative to the query's position",
                            .minimum = 1,
                            .maximum = 1 << 30}},
               .describe = describe,
               // Distances of both directions, and half a normalizer.
               .numbers_an_offset = [](const PositionUse&) { return 1.5; }},
      .make = [](const PositionConfig& config, const PositionSizes& sizes) {
        return std::make_unique<Fire>(config, sizes);
      }};
}

}  // namespace ropewalk
