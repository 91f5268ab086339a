#include "train/log_layout.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/error.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(LogLayout, WeightAndBiasOfAModuleGoTogetherAndBlocksHaveTotals) {
  ParameterSet parameters;
  parameters.add("token_embedding.weight", {5, 2}, Role::weight);
  parameters.add("blocks.0.attention.query.weight", {2, 2}, Role::weight);
  parameters.add("blocks.0.attention.query.bias", {2}, Role::other);
  parameters.add("blocks.1.attention.query.weight", {2, 2}, Role::weight);
  parameters.add("blocks.1.ffn.down.weight", {2, 2}, Role::weight);
  parameters.add("final_norm.weight", {2}, Role::other);
  parameters.add("final_norm.bias", {2}, Role::other);
  const LogLayout layout = make_log_layout(parameters, 2);
  EXPECT_EQ(layout.layer_kinds, (std::vector<std::string>{"attention.query", "ffn.down", "block"}));
  EXPECT_EQ(layout.stem_kinds, (std::vector<std::string>{"token_embedding", "position_embedding", "relative_bias",
                                                         "final_norm", "lm_head"}));
  EXPECT_EQ(layout.cells(), 6U);

  const std::vector<double> squared = {49, 9, 16, 4, 12, 1, 3};
  std::vector<float> layers(6), stem(5);
  layer_norms(layout, squared, layers);
  EXPECT_EQ(layers[0], 5.0F);
  EXPECT_TRUE(std::isnan(layers[1])) << "block 0 has no ffn.down";
  EXPECT_EQ(layers[2], 5.0F);
  EXPECT_EQ(layers[3], 2.0F);
  EXPECT_FLOAT_EQ(layers[4], std::sqrt(12.0F));
  EXPECT_EQ(layers[5], 4.0F);
  stem_norms(layout, squared, stem);
  EXPECT_EQ(stem[0], 7.0F);
  for (const std::size_t absent : {1U, 2U, 4U}) EXPECT_TRUE(std::isnan(stem[absent]));
  EXPECT_EQ(stem[3], 2.0F);
}

TEST(LogLayout, ABlockOfNothingIsAbsent) {
  ParameterSet parameters;
  parameters.add("blocks.1.ffn.up.weight", {2, 2}, Role::weight);
  const LogLayout layout = make_log_layout(parameters, 2);
  std::vector<float> layers(4);
  layer_norms(layout, std::vector<double>{4}, layers);
  EXPECT_TRUE(std::isnan(layers[0]));
  EXPECT_TRUE(std::isnan(layers[1]));
  EXPECT_EQ(layers[2], 2.0F);
  EXPECT_EQ(layers[3], 2.0F);
}

TEST(LogLayout, TheKindsOfAnEncoderStandBeforeThoseOfItsDecoder) {
  ParameterSet parameters;
  for (const char* name :
       {"token_embedding.weight", "encoder.blocks.0.ffn.up.weight", "encoder.blocks.1.ffn.up.weight",
        "encoder.blocks.1.ffn.up.bias", "encoder.final_norm.weight", "blocks.0.cross_attention.query.weight",
        "blocks.0.ffn.up.weight", "blocks.1.ffn.up.weight", "final_norm.weight"}) {
    parameters.add(name, {1}, Role::weight);
  }
  const LogLayout layout = make_log_layout(parameters, 2);
  EXPECT_EQ(layout.layer_kinds,
            (std::vector<std::string>{"encoder.ffn.up", "encoder.block", "cross_attention.query", "ffn.up", "block"}));
  EXPECT_EQ(
      layout.stem_kinds,
      (std::vector<std::string>{"token_embedding", "encoder.position_embedding", "encoder.relative_bias",
                                "encoder.final_norm", "position_embedding", "relative_bias", "final_norm", "lm_head"}));
  const std::vector<double> squared = {1, 4, 9, 16, 25, 36, 64, 81, 100};
  std::vector<float> layers(10), stem(8);
  layer_norms(layout, squared, layers);
  EXPECT_EQ((std::vector<float>{layers[0], layers[1]}), (std::vector<float>{2, 2}));
  EXPECT_EQ((std::vector<float>{layers[2], layers[3], layers[4]}), (std::vector<float>{6, 8, 10}));
  EXPECT_EQ((std::vector<float>{layers[5], layers[6]}), (std::vector<float>{5, 5})) << "the encoder's second block";
  EXPECT_TRUE(std::isnan(layers[7]));
  EXPECT_EQ((std::vector<float>{layers[8], layers[9]}), (std::vector<float>{9, 9}));
  stem_norms(layout, squared, stem);
  EXPECT_EQ(stem[0], 1.0F);
  EXPECT_EQ(stem[3], 5.0F);
  EXPECT_EQ(stem[6], 10.0F);
  for (const std::size_t absent : {1U, 2U, 4U, 5U, 7U}) EXPECT_TRUE(std::isnan(stem[absent]));
}

TEST(LogLayout, SizesThatDoNotFitAreRefused) {
  ParameterSet parameters;
  parameters.add("blocks.0.ffn.up.weight", {2, 2}, Role::weight);
  const LogLayout layout = make_log_layout(parameters, 1);
  std::vector<float> two(2), three(3);
  EXPECT_THROW(layer_norms(layout, std::vector<double>{1}, three), Error);
  EXPECT_THROW(layer_norms(layout, std::vector<double>{1, 2}, two), Error);
  EXPECT_THROW(stem_norms(layout, std::vector<double>{1}, three), Error);
}

using LogLayoutOfModels = TinyTraining;

TEST_F(LogLayoutOfModels, EveryParameterHasItsPlace) {
  const std::vector<std::string> stems = {"token_embedding", "position_embedding", "relative_bias", "final_norm",
                                          "lm_head"};
  for (const PositionSchemeInfo& scheme : position_scheme_infos()) {
    for (const char* placement : {"pre", "post", "sandwich"}) {
      const RunSetup setup =
          set_up(config({"position.encoding=" + scheme.name, std::string("model.norm_placement=") + placement,
                         "model.tie_embeddings=false", "model.qk_norm=true"}));
      const LogLayout layout = make_log_layout(setup.model->parameters(), 2);
      // Schemes may bring modules of their own, but none outside the blocks that the log has no name for.
      EXPECT_EQ(layout.stem_kinds, stems) << scheme.name;
      EXPECT_EQ(std::set<std::string>(layout.layer_kinds.begin(), layout.layer_kinds.end()).size(),
                layout.layer_kinds.size());
      EXPECT_EQ(layout.layer_kinds.back(), "block");
      const std::vector<double> ones(setup.model->parameters().size(), 1.0);
      std::vector<float> layers(layout.cells()), stem(layout.stem_kinds.size());
      layer_norms(layout, ones, layers);
      stem_norms(layout, ones, stem);
      const std::size_t kinds = layout.layer_kinds.size();
      double sum = std::pow(layers[kinds - 1], 2) + std::pow(layers[2 * kinds - 1], 2);
      for (const float x : stem) sum += std::isnan(x) ? 0.0 : std::pow(x, 2);
      EXPECT_NEAR(sum, static_cast<double>(ones.size()), 1e-4) << scheme.name;
    }
  }
}

TEST_F(LogLayoutOfModels, EveryParameterOfAnEncoderDecoderHasItsPlace) {
  for (const PositionSchemeInfo& scheme : position_scheme_infos()) {
    const RunSetup setup =
        set_up(config({"position.encoding=" + scheme.name, "model.arch=encoder_decoder", "data.source=task",
                       "data.task=copy", "data.max_length=6", "eval.lengths=4", "model.norm_placement=sandwich"}));
    const LogLayout layout = make_log_layout(setup.model->parameters(), 2);
    EXPECT_EQ(layout.stem_kinds.size(), 8U) << scheme.name;
    const std::vector<double> ones(setup.model->parameters().size(), 1.0);
    std::vector<float> layers(layout.cells()), stem(layout.stem_kinds.size());
    layer_norms(layout, ones, layers);
    stem_norms(layout, ones, stem);
    const std::size_t kinds = layout.layer_kinds.size();
    const auto encoder = static_cast<std::size_t>(
        std::find(layout.layer_kinds.begin(), layout.layer_kinds.end(), "encoder.block") - layout.layer_kinds.begin());
    ASSERT_LT(encoder, kinds);
    double sum = 0;
    for (const std::size_t layer : {0U, 1U}) {
      for (const std::size_t block : {encoder, kinds - 1}) sum += std::pow(layers[layer * kinds + block], 2);
    }
    for (const float x : stem) sum += std::isnan(x) ? 0.0 : std::pow(x, 2);
    EXPECT_NEAR(sum, static_cast<double>(ones.size()), 1e-4) << scheme.name;
  }
}

}  // namespace
}  // namespace ropewalk
