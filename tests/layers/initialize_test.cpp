#include "layers/initialize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "layers/positions/options.h"
#include "layers/transformer.h"

namespace ropewalk::testing {
namespace {

constexpr double kLayers = 3;
constexpr double kWidth = 64;
constexpr double kHidden = 160;
constexpr double kVocabulary = 101;

ArchitectureConfig architecture(Init init, const std::string& encoding = "learned") {
  ArchitectureConfig config;
  config.model = {.n_layers = 3, .d_model = 64, .n_heads = 4, .d_ff = 160, .tie_embeddings = false, .vocab_size = 101};
  config.model.activation = Activation::swiglu;
  config.model.qk_norm = true;
  config.model.init = init;
  config.position = default_position_config();
  config.position.encoding = encoding;
  config.position.max_length = 50;
  return config;
}

std::unique_ptr<Transformer> started(const ArchitectureConfig& config, uint64_t seed, DType dtype = DType::f64) {
  auto model = std::make_unique<Transformer>(config, dtype);
  model->allocate();
  model->initialize(seed);
  return model;
}

bool ends_with(std::string_view name, std::string_view end) {
  return name.ends_with(end);
}

/// What a parameter is drawn from: a constant, or a symmetric distribution of this deviation.
struct Expected {
  bool constant = false;
  double value = 0;      ///< the constant or the standard deviation
  bool uniform = false;  ///< within sqrt(3) deviations
};

Expected constant(double x) {
  return {true, x};
}
Expected normal(double deviation) {
  return {false, deviation};
}
Expected within(double bound) {
  return {false, bound / std::sqrt(3.0), true};
}

Expected expected_of(const std::string& name, Init init) {
  const bool torch = init == Init::torch;
  if (name.find("norm") != std::string::npos) return constant(ends_with(name, ".weight") ? 1.0 : 0.0);
  const double in = ends_with(name, "ffn.down.weight") || ends_with(name, "ffn.down.bias") ? kHidden : kWidth;
  const bool ffn_up = name.find("ffn.up") != std::string::npos || name.find("ffn.gate") != std::string::npos;
  const double out = name == "lm_head.weight" ? kVocabulary : ffn_up ? kHidden : kWidth;
  if (ends_with(name, ".bias")) {
    const bool attention = name.find("attention") != std::string::npos;
    return torch && !attention ? within(1 / std::sqrt(in)) : constant(0.0);
  }
  if (name.find("embedding") != std::string::npos) return normal(torch ? 1.0 : 0.02);
  const bool output = ends_with(name, "attention.output.weight") || ends_with(name, "ffn.down.weight");
  const bool query_or_key = ends_with(name, "query.weight") || ends_with(name, "key.weight");
  const bool value = ends_with(name, "value.weight");
  switch (init) {
    case Init::gpt2:
      return normal(output ? 0.02 / std::sqrt(2 * kLayers) : 0.02);
    case Init::torch:
      return within(query_or_key || value ? std::sqrt(6 / (4 * kWidth)) : 1 / std::sqrt(in));
    case Init::xavier:
      return normal(std::sqrt(2 / (in + out)));
    case Init::deepnorm: {
      const bool small = name != "lm_head.weight" && !query_or_key;
      return normal(std::sqrt(2 / (in + out)) * (small ? std::pow(8 * kLayers, -0.25) : 1.0));
    }
  }
  return {};
}

TEST(InitializeTest, DrawsEachParameterFromItsDistribution) {
  for (const auto& [init, init_name] : kInitNames) {
    const auto model = started(architecture(init), 1);
    for (int32_t p = 0; p < static_cast<int32_t>(model->parameters().size()); ++p) {
      const std::string& name = model->parameters()[p].name;
      SCOPED_TRACE(std::string(init_name) + " " + name);
      const Tensor x = model->parameters().value(p);
      const Expected expected = expected_of(name, init);
      const auto n = static_cast<double>(x.elements());
      double sum = 0, squares = 0, greatest = 0;
      for (int64_t i = 0; i < x.elements(); ++i) {
        if (expected.constant) {
          ASSERT_EQ(x.at(i), expected.value);
        }
        sum += x.at(i);
        squares += x.at(i) * x.at(i);
        greatest = std::max(greatest, std::abs(x.at(i)));
      }
      if (expected.constant) continue;
      // The sample's deviation varies by s / sqrt(2 n) (normal) or s sqrt(0.2 / n) (uniform), its mean by s / sqrt(n).
      const double s = expected.value;
      EXPECT_NEAR(std::sqrt(squares / n), s, 4 * s * std::sqrt((expected.uniform ? 0.2 : 0.5) / n));
      EXPECT_NEAR(sum / n, 0.0, 4 * s / std::sqrt(n));
      if (expected.uniform) {
        EXPECT_LT(greatest, s * std::sqrt(3.0));
        EXPECT_GT(greatest, s * std::sqrt(3.0) * 0.85);
      } else {
        EXPECT_GT(greatest, s * 2.0);
      }
    }
  }
}

TEST(InitializeTest, GroupedHeadsShareTheBoundOfTheJointMatrixInTorch) {
  ArchitectureConfig config = architecture(Init::torch);
  config.model.n_kv_heads = 1;
  const auto model = started(config, 1);
  const double bound = std::sqrt(6.0 / (64 + (4 + 2) * 16));
  for (const char* name : {"query", "key", "value"}) {
    const Tensor x =
        model->parameters().value(model->parameters().find(std::string("blocks.1.attention.") + name + ".weight"));
    double greatest = 0;
    for (int64_t i = 0; i < x.elements(); ++i) greatest = std::max(greatest, std::abs(x.at(i)));
    EXPECT_LT(greatest, bound);
    EXPECT_GT(greatest, 0.98 * bound) << name;
  }
}

TEST(InitializeTest, CrossAttentionIsDrawnAsOneJointMatrixInTorch) {
  ArchitectureConfig config = architecture(Init::torch, "sinusoidal");
  config.model.arch = Arch::encoder_decoder;
  const auto model = started(config, 1);
  const double bound = std::sqrt(6.0 / (kWidth + 3 * kWidth));
  for (const char* name : {"query", "key", "value"}) {
    const std::string full = std::string("blocks.1.cross_attention.") + name;
    const Tensor x = model->parameters().value(model->parameters().find(full + ".weight"));
    double greatest = 0;
    for (int64_t i = 0; i < x.elements(); ++i) greatest = std::max(greatest, std::abs(x.at(i)));
    EXPECT_LT(greatest, bound) << name;
    EXPECT_GT(greatest, 0.98 * bound) << name;
    const Tensor bias = model->parameters().value(model->parameters().find(full + ".bias"));
    for (int64_t i = 0; i < bias.elements(); ++i) EXPECT_EQ(bias.at(i), 0.0) << name;
  }
}

TEST(InitializeTest, KerpleStartsBetweenItsFloorAndTwo) {
  ArchitectureConfig config = architecture(Init::gpt2, "kerple");
  config.model.n_heads = 64;
  config.model.d_head = 2;
  config.position.options["kerple_eps"] = 0.1;
  const auto model = started(config, 1);
  for (const auto& [name, high] : {std::pair{"amplitude", 2.0}, {"rate", 1.0}}) {
    const Tensor x =
        model->parameters().value(model->parameters().find(std::string("blocks.0.attention.kerple.") + name));
    double least = 9, greatest = 0;
    for (int64_t i = 0; i < x.elements(); ++i) {
      least = std::min(least, x.at(i));
      greatest = std::max(greatest, x.at(i));
    }
    EXPECT_GE(least, 0.1);
    EXPECT_LT(least, 0.4);
    EXPECT_LT(greatest, high);
    EXPECT_GT(greatest, 0.8 * high);
  }
}

bool same(const ParameterSet& a, const ParameterSet& b, const std::string& name) {
  const Tensor x = a.value(a.find(name));
  const Tensor y = b.value(b.find(name));
  return x.shape == y.shape && std::memcmp(x.bytes, y.bytes, x.size_bytes()) == 0;
}

TEST(InitializeTest, IsAFunctionOfTheSeed) {
  const auto a = started(architecture(Init::gpt2), 1);
  const auto again = started(architecture(Init::gpt2), 1);
  const auto other = started(architecture(Init::gpt2), 2);
  for (const Parameter& parameter : a->parameters().all()) {
    EXPECT_TRUE(same(a->parameters(), again->parameters(), parameter.name)) << parameter.name;
    if (expected_of(parameter.name, Init::gpt2).constant) continue;
    EXPECT_FALSE(same(a->parameters(), other->parameters(), parameter.name)) << parameter.name;
  }
}

TEST(InitializeTest, GivesEveryParameterAStreamOfItsOwn) {
  const auto model = started(architecture(Init::gpt2), 1);
  const ParameterSet& p = model->parameters();
  const auto first = [&](const std::string& name) { return p.value(p.find(name)).at(0); };
  EXPECT_NE(first("blocks.0.attention.query.weight"), first("blocks.1.attention.query.weight"));
  EXPECT_NE(first("blocks.0.attention.query.weight"), first("blocks.0.attention.key.weight"));
  EXPECT_NE(first("token_embedding.weight"), first("position_embedding.weight"));
}

TEST(InitializeTest, StartsSharedParametersAlikeInEveryScheme) {
  for (const auto& [init, init_name] : kInitNames) {
    const auto plain = started(architecture(init, "none"), 3);
    for (const PositionSchemeInfo& info : position_scheme_infos()) {
      ArchitectureConfig config = architecture(init, info.name);
      config.model.norm_placement = NormPlacement::sandwich;
      const auto other = started(config, 3);
      for (const Parameter& parameter : plain->parameters().all()) {
        EXPECT_TRUE(same(plain->parameters(), other->parameters(), parameter.name)) << info.name << parameter.name;
      }
    }
  }
}

TEST(InitializeTest, DrawsTheSameNumbersInSingleAndDoublePrecision) {
  const auto narrow = started(architecture(Init::xavier), 1, DType::f32);
  const auto wide = started(architecture(Init::xavier), 1, DType::f64);
  for (int32_t p = 0; p < static_cast<int32_t>(wide->parameters().size()); ++p) {
    const Tensor x = narrow->parameters().value(p);
    const Tensor y = wide->parameters().value(p);
    for (int64_t i = 0; i < x.elements(); ++i) ASSERT_EQ(x.at(i), static_cast<double>(static_cast<float>(y.at(i))));
  }
}

}  // namespace
}  // namespace ropewalk::testing
