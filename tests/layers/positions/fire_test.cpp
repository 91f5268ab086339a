#include <cmath>

#include <gtest/gtest.h>

#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

/// One layer of fire under a causal mask whose keys and queries are zero, so that only the bias tells tokens apart.
std::unique_ptr<Transformer> biased_alone(int64_t threshold, int64_t width = 4) {
  ArchitectureConfig config = small_architecture("fire");
  config.model.n_layers = 1;
  config.model.norm_placement = NormPlacement::none;
  config.position.options["fire_threshold"] = threshold;
  config.position.options["fire_width"] = width;
  auto model = make_model(config, 6);
  for (const char* name : {"query", "key"}) {
    for (const char* part : {".weight", ".bias"}) {
      const ParameterSet& p = model->parameters();
      const Tensor value = p.value(p.find(std::string("blocks.0.attention.") + name + part));
      for (int64_t i = 0; i < value.elements(); ++i) value.set(i, 0.0);
    }
  }
  return model;
}

/// The entropy that the formula of the paper gives to the last of 6 queries and all before, summed up, of head h.
double expected_entropy(const ParameterSet& p, int64_t threshold, int64_t h) {
  const auto value = [&](const char* name, int64_t i) {
    return p.value(p.find(std::string("blocks.0.attention.fire.") + name)).at(i);
  };
  const int64_t width = p.value(p.find("blocks.0.attention.fire.mlp.hidden.bias")).elements();
  const auto psi = [&](double x) { return std::log(value("c", 0) * x + 1); };
  double entropy = 0;
  for (int64_t i = 0; i < 6; ++i) {
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const double reach = std::max(static_cast<double>(i), static_cast<double>(threshold) * value("L_multiplier", 0));
      const double x = psi(static_cast<double>(i - j)) / psi(reach);
      double bias = value("mlp.output.bias", h);
      for (int64_t k = 0; k < width; ++k) {
        const double unit = value("mlp.hidden.weight", k) * x + value("mlp.hidden.bias", k);
        bias += value("mlp.output.weight", h * width + k) * std::max(0.0, unit);
      }
      weights.push_back(std::exp(bias));
      total += weights.back();
    }
    for (const double w : weights) entropy -= w / total * std::log(w / total);
  }
  return entropy;
}

TEST(FireSchemeTest, ItsBiasIsThatOfThePaperBelowAndBeyondItsThreshold) {
  for (const int64_t threshold : {3, 100}) {
    const auto model = biased_alone(threshold);
    const std::vector<int32_t> tokens = some_tokens(6);
    double entropy[2] = {0, 0};
    double max_logit[2] = {-1e9, -1e9};
    Workspace workspace;
    Tape tape(workspace, Mode::inference, &model->parameters());
    ForwardPass pass{.tape = tape, .sequences = 1, .length = 6, .trace = {.entropy = entropy, .max_logit = max_logit}};
    model->logits(pass, tokens.data());
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_NEAR(entropy[h], expected_entropy(model->parameters(), threshold, h), 1e-12) << threshold;
    }
  }
}

TEST(FireSchemeTest, StartsAsPublishedWhateverTheInitialization) {
  for (const Init init : {Init::gpt2, Init::xavier, Init::torch, Init::deepnorm}) {
    ArchitectureConfig config = small_architecture("fire");
    config.model.init = init;
    config.position.options["fire_width"] = int64_t{400};
    Transformer model(config, DType::f64);
    model.allocate();
    model.initialize(3);
    const ParameterSet& p = model.parameters();
    const std::string prefix = "blocks.1.attention.fire.";
    EXPECT_EQ(p.value(p.find(prefix + "c")).at(0), 0.1);
    EXPECT_EQ(p.value(p.find(prefix + "L_multiplier")).at(0), 1.0);
    EXPECT_EQ(p[p.find(prefix + "L_multiplier")].floor, 0.2) << "a threshold of 5 stays at least 1";
    for (const auto& [name, bound] : {std::pair{"mlp.hidden.weight", 1.0},
                                      {"mlp.hidden.bias", 1.0},
                                      {"mlp.output.weight", 0.05},
                                      {"mlp.output.bias", 0.05}}) {
      const Tensor value = p.value(p.find(prefix + name));
      double greatest = 0;
      for (int64_t i = 0; i < value.elements(); ++i) greatest = std::max(greatest, std::abs(value.at(i)));
      EXPECT_LE(greatest, bound) << name;
      EXPECT_TRUE(value.elements() < 400 || greatest > 0.98 * bound) << name;
    }
  }
}

TEST(FireSchemeTest, TheThresholdMattersToQueriesBeyondIt) {
  const std::vector<int32_t> tokens = some_tokens(6);
  const auto before = biased_alone(100);
  const auto after = biased_alone(100);
  const ParameterSet& p = after->parameters();
  p.value(p.find("blocks.0.attention.fire.L_multiplier")).set(0, 1e-2);  // L = 1
  const Tensor a = logits_of(*before, tokens, 1);
  const Tensor b = logits_of(*after, tokens, 1);
  EXPECT_TRUE(same_row(a, b, 0)) << "the first query sees itself alone";
  EXPECT_GT(greatest_difference(a, b), 1e-3);
}

TEST(FireSchemeTest, TellsWhatItsThresholdComesTo) {
  PositionUse use = position_use(small_architecture("fire"));
  use.context_length = 5;
  const auto text = [&] { return describe_position(use).front().text; };
  EXPECT_EQ(text(),
            "an MLP of 4 hidden units of ln(1 + c |i - j|) / ln(1 + c max(i, L)), c 0.1 and L 5 at first, which no "
            "position in training exceeds: until L is learned below, the bias depends on the offset alone");
  use.context_length = 6;
  EXPECT_EQ(text(), "an MLP of 4 hidden units of ln(1 + c |i - j|) / ln(1 + c max(i, L)), c 0.1 and L 5 at first");
  use.context_length = 5;
  use.position.randomize_to = 50;
  EXPECT_TRUE(text().ends_with("at first"));
}

}  // namespace
}  // namespace ropewalk::testing
