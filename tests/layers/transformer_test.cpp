#include "layers/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

class EveryTransformerTest : public ::testing::TestWithParam<Combination> {};

TEST_P(EveryTransformerTest, GradientsMatchDifferences) {
  ArchitectureConfig config = GetParam().architecture();
  EXPECT_LT(loss_gradient_error(*make_model(config, 6), 6), 1e-8);
}

TEST_P(EveryTransformerTest, GradientsMatchDifferencesWithEveryOptionTurned) {
  ArchitectureConfig config = GetParam().architecture();
  config.model.n_heads = 4;
  config.model.n_kv_heads = 2;
  config.model.d_head = 4;
  config.model.norm_eps = 0.1;  // a query near zero would turn too sharply for differences under qk_norm
  config.model.activation = Activation::swiglu;
  config.model.bias = false;
  config.model.qk_norm = true;
  config.model.tie_embeddings = false;
  config.model.scale_embeddings = true;
  config.attention = {.scale_scores = false, .window_radius = 2, .global_tokens = 1};
  EXPECT_LT(loss_gradient_error(*make_model(config, 5), 5), 1e-8);
}

TEST_P(EveryTransformerTest, ALaterTokenChangesNoLogitBefore) {
  constexpr int64_t kLength = 7;
  for (const AttentionConfig& pattern : {AttentionConfig{}, AttentionConfig{.window_radius = 2},
                                         AttentionConfig{.window_radius = 1, .global_tokens = 2}}) {
    ArchitectureConfig config = GetParam().architecture();
    config.attention = pattern;
    const auto model = make_model(config, kLength);
    const std::vector<int32_t> tokens = some_tokens(kLength);
    for (const Mode mode : {Mode::inference, Mode::train}) {
      const Tensor before = logits_of(*model, tokens, 1, mode);
      for (int64_t changed = 1; changed < kLength; ++changed) {
        std::vector<int32_t> other = tokens;
        auto& token = other[static_cast<std::size_t>(changed)];
        token = (token + 3) % 7;
        const Tensor after = logits_of(*model, other, 1, mode);
        for (int64_t t = 0; t < changed; ++t) EXPECT_TRUE(same_row(before, after, t)) << t << " before " << changed;
        EXPECT_FALSE(same_row(before, after, changed));
      }
    }
  }
}

TEST_P(EveryTransformerTest, InferenceEqualsTheForwardPassOfTraining) {
  const auto model = make_model(GetParam().architecture(), 6);
  const std::vector<int32_t> tokens = some_tokens(18);
  EXPECT_TRUE(same_bits(logits_of(*model, tokens, 3, Mode::inference), logits_of(*model, tokens, 3, Mode::train)));
}

TEST_P(EveryTransformerTest, LengthsBeforeLeaveNoTrace) {
  const auto fresh = make_model(GetParam().architecture(), 5);
  const auto used = make_model(GetParam().architecture(), 8);
  const std::vector<int32_t> tokens = some_tokens(5);
  for (const int64_t length : {3, 7, 5}) used->prepare(length);
  EXPECT_TRUE(same_bits(logits_of(*fresh, tokens, 1), logits_of(*used, tokens, 1)));
}

TEST_P(EveryTransformerTest, SequencesOfABatchDoNotMeet) {
  const auto model = make_model(GetParam().architecture(), 5);
  const std::vector<int32_t> tokens = some_tokens(15);
  const Tensor together = logits_of(*model, tokens, 3);
  for (int64_t b = 0; b < 3; ++b) {
    const Tensor alone = logits_of(*model, {tokens.begin() + b * 5, tokens.begin() + (b + 1) * 5}, 1);
    EXPECT_LT(greatest_difference(alone, together, b * 5 * 7), 1e-12);
  }
}

TEST_P(EveryTransformerTest, DropoutFollowsTheSequenceNotTheBatch) {
  const auto model = make_model(GetParam().architecture(), 5);
  const std::vector<int32_t> tokens = some_tokens(20);
  const DropoutKey key{.rate = 0.3, .seed = 9, .step = 4, .first_sequence = 10};
  const Tensor together = logits_of(*model, tokens, 4, Mode::train, key);
  for (const int64_t size : {1, 2}) {
    for (int64_t b = 0; b < 4; b += size) {
      DropoutKey part = key;
      part.first_sequence += static_cast<uint32_t>(b);
      const Tensor alone =
          logits_of(*model, {tokens.begin() + b * 5, tokens.begin() + (b + size) * 5}, size, Mode::train, part);
      EXPECT_LT(greatest_difference(alone, together, b * 5 * 7), 1e-12);
    }
  }
  DropoutKey next = key;
  next.step = 5;
  EXPECT_GT(greatest_difference(logits_of(*model, tokens, 4, Mode::train, next), together), 1e-3);
  EXPECT_TRUE(same_bits(logits_of(*model, tokens, 4, Mode::inference, key), logits_of(*model, tokens, 4)));
}

INSTANTIATE_TEST_SUITE_P(Grid, EveryTransformerTest, ::testing::ValuesIn(norm_combinations()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

class EveryAttentionTest : public EveryPlacementTest {};

TEST_P(EveryAttentionTest, GradientsMatchDifferences) {
  for_placements(
      [](const ArchitectureConfig& config) { EXPECT_LT(loss_gradient_error(*make_model(config, 6), 6), 1e-8); });
}

TEST_P(EveryAttentionTest, ALaterTokenChangesNoLogitBefore) {
  for_placements([](const ArchitectureConfig& config) {
    constexpr int64_t kLength = 6;
    const auto model = make_model(config, kLength);
    const std::vector<int32_t> tokens = some_tokens(kLength);
    const Tensor before = logits_of(*model, tokens, 1);
    for (int64_t changed = 1; changed < kLength; ++changed) {
      std::vector<int32_t> other = tokens;
      auto& token = other[static_cast<std::size_t>(changed)];
      token = (token + 3) % 7;
      const Tensor after = logits_of(*model, other, 1);
      for (int64_t t = 0; t < changed; ++t) EXPECT_TRUE(same_row(before, after, t)) << t << " before " << changed;
      EXPECT_FALSE(same_row(before, after, changed));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Grid, EveryAttentionTest, ::testing::ValuesIn(attention_combinations()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(TransformerTest, RefusesIllegalCombinationsWithAReason) {
  int refused = 0;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const auto& [pattern, name] : kPatternNames) {
      const Combination c{.encoding = info.name, .sharing = Sharing::mla, .pattern = pattern};
      if (!is_illegal(c)) continue;
      ++refused;
      try {
        make_model(c.architecture(), 4);
        ADD_FAILURE() << c;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(info.name), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("attention.kind"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_GE(refused, 4);
}

TEST(TransformerTest, LatentAttentionSaysWhatItNeeds) {
  const auto message = [](void (*change)(ArchitectureConfig&)) -> std::string {
    ArchitectureConfig config = Combination{.encoding = "rope", .sharing = Sharing::mla}.architecture();
    change(config);
    try {
      make_model(config, 4);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](ArchitectureConfig&) {}), "");
  const auto names = [](const std::string& text, const char* key) { return text.find(key) != std::string::npos; };
  EXPECT_TRUE(names(message([](auto& c) { c.attention.mla_kv_rank = 0; }), "attention.mla_kv_rank"));
  EXPECT_TRUE(names(message([](auto& c) { c.attention.mla_rope_dims = 0; }), "attention.mla_rope_dims"));
  EXPECT_TRUE(names(message([](auto& c) { c.attention.mla_rope_dims = 3; }), "attention.mla_rope_dims = 3"));
  EXPECT_TRUE(names(message([](auto& c) { c.model.n_kv_heads = 1; }), "model.n_kv_heads = 1"));
  EXPECT_TRUE(names(message([](auto& c) { c.model.qk_norm = true; }), "model.qk_norm"));
  EXPECT_TRUE(names(message([](auto& c) { c.position.options["rope_dims"] = int64_t{4}; }), "position.rope_dims = 4"));
}

TEST(TransformerTest, EveryOptionOfASchemeChangesWhatTheModelSays) {
  const std::vector<int32_t> tokens = some_tokens(7);
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const Combination& c : option_combinations(info)) {
      ArchitectureConfig config = c.architecture();
      config.model.n_heads = 3;  // no power of two
      config.model.d_head = 4;
      const Tensor with = logits_of(*make_model(config, 7), tokens, 1);
      for (const PositionOption& option : info.options) {
        const bool is_subject = c.options_name.starts_with("_" + option.key) && c.options.contains(option.key);
        if (is_subject) config.position.options[option.key] = option.default_value;
      }
      const Tensor without = logits_of(*make_model(config, 7), tokens, 1);
      EXPECT_GT(greatest_difference(with, without), 1e-6) << c;
    }
  }
}

TEST(TransformerTest, LearnedAlibiSlopesStartAtTheFixedOnesAndAreOfEachLayer) {
  ArchitectureConfig config = small_architecture("alibi");
  config.model.n_heads = 3;
  config.model.d_head = 4;
  const auto with = [&](bool learned, const std::string& slopes) {
    config.position.options["alibi_learned"] = learned;
    config.position.options["alibi_slopes"] = slopes;
    auto model = std::make_unique<Transformer>(config, DType::f64);
    model->allocate();
    model->initialize(3);
    model->prepare(9);
    return model;
  };
  const std::vector<int32_t> tokens = some_tokens(9);
  for (const char* slopes : {"closest_power", "geometric"}) {
    const auto fixed = with(false, slopes);
    const auto learned = with(true, slopes);
    EXPECT_EQ(learned->parameters().elements(), fixed->parameters().elements() + 2 * 3);
    EXPECT_TRUE(same_bits(logits_of(*fixed, tokens, 1), logits_of(*learned, tokens, 1))) << slopes;
    for (const char* name : {"blocks.0.attention.alibi.slopes", "blocks.1.attention.alibi.slopes"}) {
      const ParameterSet& p = learned->parameters();
      ASSERT_GE(p.find(name), 0) << name;
      const Tensor before = logits_of(*learned, tokens, 1);
      p.value(p.find(name)).set(1, 0.7);
      EXPECT_FALSE(same_bits(before, logits_of(*learned, tokens, 1))) << name;
    }
  }
}

TEST(TransformerTest, EveryActivationAndRotaryOptionHasRightGradients) {
  for (const auto& [activation, name] : kActivationNames) {
    if (activation == Activation::relu) continue;  // differences straddle its kink
    ArchitectureConfig config = small_architecture("rope");
    config.model.activation = activation;
    EXPECT_LT(loss_gradient_error(*make_model(config, 5), 5), 1e-8) << name;
  }
  for (const char* scaling : {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"}) {
    for (const char* pairing : {"interleaved", "split_half"}) {
      ArchitectureConfig config = small_architecture("rope");
      config.position.options["rope_scaling"] = std::string(scaling);
      config.position.options["rope_pairing"] = std::string(pairing);
      config.position.options["rope_factor"] = 3.0;
      config.position.options["rope_original_context"] = int64_t{4};
      EXPECT_LT(loss_gradient_error(*make_model(config, 6), 6), 1e-8) << scaling << pairing;
    }
  }
}

TEST(TransformerTest, WithoutACausalMaskLaterTokensCountInEveryScheme) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    ArchitectureConfig config = small_architecture(info.name);
    config.attention.causal = false;
    config.position.options["t5_max_distance"] = int64_t{9};
    const auto model = make_model(config, 5);
    EXPECT_LT(loss_gradient_error(*model, 5), 1e-8) << info.name;
    std::vector<int32_t> tokens = some_tokens(5);
    const Tensor before = logits_of(*model, tokens, 1);
    tokens[4] = (tokens[4] + 1) % 7;
    EXPECT_FALSE(same_row(before, logits_of(*model, tokens, 1), 0)) << info.name;
  }
}

/// Which tokens' logits move when the token at `changed` does.
std::vector<int64_t> reached(const ArchitectureConfig& config, int64_t length, int64_t changed) {
  const auto model = make_model(config, length);
  std::vector<int32_t> tokens = some_tokens(length);
  const Tensor before = logits_of(*model, tokens, 1);
  auto& token = tokens[static_cast<std::size_t>(changed)];
  token = (token + 1) % 7;
  const Tensor after = logits_of(*model, tokens, 1);
  std::vector<int64_t> out;
  for (int64_t t = 0; t < length; ++t) {
    if (!same_row(before, after, t)) out.push_back(t);
  }
  return out;
}

TEST(TransformerTest, WindowsAndGlobalTokensReachWhatTheySayAndNoMore) {
  using Positions = std::vector<int64_t>;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    SCOPED_TRACE(info.name);
    ArchitectureConfig config = small_architecture(info.name);
    config.position.options["t5_max_distance"] = int64_t{9};
    config.attention = {.window_radius = 1};
    EXPECT_EQ(reached(config, 8, 2), (Positions{2, 3, 4}));  // two layers of one step each
    config.attention = {.causal = false, .window_radius = 1};
    EXPECT_EQ(reached(config, 8, 4), (Positions{2, 3, 4, 5, 6}));
    config.attention = {.window_radius = 1, .global_tokens = 1};
    EXPECT_EQ(reached(config, 8, 0), (Positions{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(reached(config, 8, 2), (Positions{2, 3, 4}));
    config.model.n_layers = 1;
    config.attention = {.causal = false, .window_radius = 1, .global_tokens = 2};
    EXPECT_EQ(reached(config, 8, 5), (Positions{0, 1, 4, 5, 6}));
    EXPECT_EQ(reached(config, 8, 1), (Positions{0, 1, 2, 3, 4, 5, 6, 7}));
    config.attention = {.window_radius = 0};
    EXPECT_EQ(reached(config, 8, 3), Positions{3});
  }
}

TEST(TransformerTest, TiedWeightsCountOnceAndGetBothGradients) {
  ArchitectureConfig config = small_architecture("alibi");
  const auto tied = make_model(config, 6);
  config.model.tie_embeddings = false;
  const auto apart = make_model(config, 6);
  EXPECT_EQ(apart->parameters().elements(), tied->parameters().elements() + 7 * 8);
  EXPECT_EQ(tied->parameters().find("lm_head.weight"), -1);
  const ParameterSet& p = apart->parameters();
  for (const Parameter& parameter : p.all()) {
    const std::string source = parameter.name == "lm_head.weight" ? "token_embedding.weight" : parameter.name;
    const Tensor from = tied->parameters().value(tied->parameters().find(source));
    const Tensor to = p.value(p.find(parameter.name));
    std::memcpy(to.bytes, from.bytes, from.size_bytes());
  }
  const std::vector<int32_t> tokens = some_tokens(12);
  const std::vector<int32_t> targets = some_tokens(12, 1);
  GradientBuffer one(tied->parameters());
  GradientBuffer two(p);
  EXPECT_EQ(loss_of(*tied, tokens, targets, 2, &one), loss_of(*apart, tokens, targets, 2, &two));
  const Tensor both = tied->parameters().view(one.flat(), tied->parameters().find("token_embedding.weight"));
  const Tensor embedding = p.view(two.flat(), p.find("token_embedding.weight"));
  const Tensor head = p.view(two.flat(), p.find("lm_head.weight"));
  double of_embedding = 0, of_head = 0;
  for (int64_t i = 0; i < both.elements(); ++i) {
    EXPECT_NEAR(both.at(i), embedding.at(i) + head.at(i), 1e-14);
    of_embedding += std::abs(embedding.at(i));
    of_head += std::abs(head.at(i));
  }
  EXPECT_GT(of_embedding, 1e-3);
  EXPECT_GT(of_head, 1e-3);
}

TEST(TransformerTest, GradientsOfTwoPassesAddUp) {
  const auto model = make_model(small_architecture("t5"), 6);
  const ParameterSet& p = model->parameters();
  const std::vector<int32_t> tokens = some_tokens(24);
  const std::vector<int32_t> targets = some_tokens(24, 1);
  GradientBuffer whole(p);
  loss_of(*model, tokens, targets, 4, &whole);
  GradientBuffer parts(p);
  parts.clear();
  Workspace workspace;
  for (int64_t b = 0; b < 4; b += 2) {
    Tape tape(workspace, Mode::train, &p, &parts);
    ForwardPass pass{.tape = tape, .sequences = 2, .length = 6};
    tape.backward(cross_entropy(model->logits(pass, tokens.data() + b * 6), targets.data() + b * 6, 24.0));
  }
  parts.complete(p);
  for (int32_t i = 0; i < static_cast<int32_t>(p.size()); ++i) {
    EXPECT_LT(greatest_difference(p.view(whole.flat(), i), p.view(parts.flat(), i)), 1e-14) << p[i].name;
  }
}

TEST(TransformerTest, QueryHeadsReadTheKeyValueHeadOfTheirGroup) {
  // Key/value head 1 gives zeros, so what the output projection makes of the heads that read it does not matter.
  ArchitectureConfig config = small_architecture("none");
  config.model.n_heads = 4;
  config.model.n_kv_heads = 2;
  config.model.d_head = 3;
  config.model.bias = false;
  config.model.n_layers = 1;
  const auto model = make_model(config, 5);
  const ParameterSet& p = model->parameters();
  const Tensor value = p.value(p.find("blocks.0.attention.value.weight"));
  for (int64_t i = 3 * 8; i < 6 * 8; ++i) value.set(i, 0.0);
  const Tensor output = p.value(p.find("blocks.0.attention.output.weight"));
  const std::vector<int32_t> tokens = some_tokens(5);
  for (int64_t head = 0; head < 4; ++head) {
    const Tensor before = logits_of(*model, tokens, 1);
    for (int64_t row = 0; row < 8; ++row) output.set(row * 12 + head * 3, output.at(row * 12 + head * 3) + 1.0);
    EXPECT_EQ(same_bits(before, logits_of(*model, tokens, 1)), head >= 2) << "head " << head;
  }
}

TEST(TransformerTest, UnscaledScoresEqualScaledOnesOfLargerQueries) {
  ArchitectureConfig config = small_architecture("rope");
  const auto scaled = make_model(config, 5);
  config.attention.scale_scores = false;
  const auto plain = make_model(config, 5);
  const ParameterSet& p = plain->parameters();
  for (const char* name : {"blocks.0.attention.query.weight", "blocks.0.attention.query.bias",
                           "blocks.1.attention.query.weight", "blocks.1.attention.query.bias"}) {
    const Tensor x = p.value(p.find(name));
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, x.at(i) / 2);  // sqrt(d_head)
  }
  const std::vector<int32_t> tokens = some_tokens(5);
  EXPECT_LT(greatest_difference(logits_of(*scaled, tokens, 1), logits_of(*plain, tokens, 1)), 1e-13);
}

TEST(TransformerTest, ScaledEmbeddingsAreTimesTheRootOfTheWidth) {
  ArchitectureConfig config = small_architecture("learned");
  config.model.tie_embeddings = false;
  const auto plain = make_model(config, 5);
  config.model.scale_embeddings = true;
  const auto scaled = make_model(config, 5);
  const Tensor x = plain->parameters().value(plain->parameters().find("token_embedding.weight"));
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, x.at(i) * std::sqrt(8.0));
  const std::vector<int32_t> tokens = some_tokens(5);
  EXPECT_LT(greatest_difference(logits_of(*scaled, tokens, 1), logits_of(*plain, tokens, 1)), 1e-13);
}

TEST(TransformerTest, TracesTheResidualStreamAndTheAttention) {
  ArchitectureConfig config = small_architecture("none");
  config.model.bias = false;
  config.model.norm_placement = NormPlacement::none;
  const auto model = make_model(config, 5);
  const ParameterSet& p = model->parameters();
  // Without queries every score of block 0 is 0.
  const Tensor query = p.value(p.find("blocks.0.attention.query.weight"));
  for (int64_t i = 0; i < query.elements(); ++i) query.set(i, 0.0);
  const std::vector<int32_t> tokens = some_tokens(10);
  std::vector<double> entropy(4, 0.0);
  std::vector<double> max_logit(4, -INFINITY);
  std::vector<Var> residuals;
  Workspace workspace;
  Tape tape(workspace, Mode::inference, &p);
  ForwardPass pass{.tape = tape,
                   .sequences = 2,
                   .length = 5,
                   .trace = {.residuals = &residuals, .entropy = entropy.data(), .max_logit = max_logit.data()}};
  const Tensor logits = model->logits(pass, tokens.data()).value();
  const double uniform = 2 * (std::log(2.0) + std::log(3.0) + std::log(4.0) + std::log(5.0));
  for (std::size_t h = 0; h < 2; ++h) {
    EXPECT_NEAR(entropy[h], uniform, 1e-12);
    EXPECT_EQ(max_logit[h], 0.0);
    EXPECT_LT(entropy[2 + h], uniform);
    EXPECT_GT(max_logit[2 + h], 0.0);
  }
  ASSERT_EQ(residuals.size(), 3u);
  const Tensor embedding = p.value(p.find("token_embedding.weight"));
  for (int64_t i = 0; i < 80; ++i) {
    EXPECT_EQ(residuals[0].value().at(i), embedding.at(tokens[static_cast<std::size_t>(i / 8)] * 8 + i % 8));
  }
  // Without a final norm the head reads the last one.
  double first = 0;
  for (int64_t c = 0; c < 8; ++c) first += residuals[2].value().at(c) * embedding.at(c);
  EXPECT_NEAR(first, logits.at(0), 1e-13);
  EXPECT_TRUE(same_bits(logits, logits_of(*model, tokens, 2)));
}

TEST(TransformerTest, InferenceRunsInTheMemoryOfOneBlock) {
  const auto peak = [](int64_t layers, Mode mode) {
    ArchitectureConfig config = small_architecture("rope");
    config.model.n_layers = layers;
    const auto model = make_model(config, 64, DType::f32);
    const std::vector<int32_t> tokens = some_tokens(128);
    Workspace workspace;
    GradientBuffer gradients(model->parameters());
    Tape tape(workspace, mode, &model->parameters(), &gradients);
    ForwardPass pass{.tape = tape, .sequences = 2, .length = 64};
    model->logits(pass, tokens.data());
    return static_cast<double>(workspace.arena.peak_bytes());
  };
  EXPECT_LT(peak(8, Mode::inference), 1.05 * peak(2, Mode::inference));
  EXPECT_GT(peak(8, Mode::train), 2.5 * peak(2, Mode::train));
}

/// "name [extents]" of all parameters, in order of declaration.
std::vector<std::string> names_and_shapes(const ArchitectureConfig& config) {
  const Transformer model(config, DType::f32);
  std::vector<std::string> out;
  for (const Parameter& parameter : model.parameters().all()) {
    std::string line = parameter.name;
    for (int i = 0; i < parameter.shape.rank(); ++i) line += " " + std::to_string(parameter.shape[i]);
    out.push_back(line);
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(TransformerTest, NamesAndShapesOfTheDefaultArchitecture) {
  ArchitectureConfig config = small_architecture("learned");
  config.model.n_layers = 1;
  EXPECT_EQ(names_and_shapes(config), (std::vector<std::string>{"blocks.0.attention.key.bias 8",
                                                                "blocks.0.attention.key.weight 8 8",
                                                                "blocks.0.attention.output.bias 8",
                                                                "blocks.0.attention.output.weight 8 8",
                                                                "blocks.0.attention.query.bias 8",
                                                                "blocks.0.attention.query.weight 8 8",
                                                                "blocks.0.attention.value.bias 8",
                                                                "blocks.0.attention.value.weight 8 8",
                                                                "blocks.0.attention_norm.bias 8",
                                                                "blocks.0.attention_norm.weight 8",
                                                                "blocks.0.ffn.down.bias 8",
                                                                "blocks.0.ffn.down.weight 8 10",
                                                                "blocks.0.ffn.up.bias 10",
                                                                "blocks.0.ffn.up.weight 10 8",
                                                                "blocks.0.ffn_norm.bias 8",
                                                                "blocks.0.ffn_norm.weight 8",
                                                                "final_norm.bias 8",
                                                                "final_norm.weight 8",
                                                                "position_embedding.weight 8 8",
                                                                "token_embedding.weight 7 8"}));
}

TEST(TransformerTest, NamesAndShapesOfGroupedSandwichedGatedHeads) {
  ArchitectureConfig config = small_architecture("shaw");
  config.position.options["shaw_values"] = true;
  config.model = {.n_layers = 1,
                  .d_model = 8,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .d_head = 3,
                  .d_ff = 0,
                  .activation = Activation::swiglu,
                  .norm = Norm::rmsnorm,
                  .norm_placement = NormPlacement::sandwich,
                  .bias = false,
                  .qk_norm = true,
                  .tie_embeddings = false,
                  .vocab_size = 7};
  EXPECT_EQ(names_and_shapes(config),
            (std::vector<std::string>{
                "blocks.0.attention.key.weight 6 8", "blocks.0.attention.key_norm.weight 3",
                "blocks.0.attention.output.weight 8 12", "blocks.0.attention.query.weight 12 8",
                "blocks.0.attention.query_norm.weight 3", "blocks.0.attention.relative_keys.weight 5 3",
                "blocks.0.attention.relative_values.weight 5 3", "blocks.0.attention.value.weight 6 8",
                "blocks.0.attention_norm.weight 8", "blocks.0.attention_post_norm.weight 8",
                "blocks.0.ffn.down.weight 8 32", "blocks.0.ffn.gate.weight 32 8", "blocks.0.ffn.up.weight 32 8",
                "blocks.0.ffn_norm.weight 8", "blocks.0.ffn_post_norm.weight 8", "final_norm.weight 8",
                "lm_head.weight 7 8", "token_embedding.weight 7 8"}));
}

TEST(TransformerTest, NamesAndShapesWithoutNorms) {
  ArchitectureConfig config = small_architecture("kerple");
  config.model.norm_placement = NormPlacement::none;
  config.model.bias = false;
  std::vector<std::string> expected = {"token_embedding.weight 7 8"};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const char* rest : {"attention.kerple.amplitude 2", "attention.kerple.rate 2", "attention.key.weight 8 8",
                             "attention.output.weight 8 8", "attention.query.weight 8 8", "attention.value.weight 8 8",
                             "ffn.down.weight 8 10", "ffn.up.weight 10 8"}) {
      expected.push_back(block + rest);
    }
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_and_shapes(config), expected);
  config.position.encoding = "t5";
  const std::vector<std::string> with_t5 = names_and_shapes(config);
  EXPECT_NE(std::find(with_t5.begin(), with_t5.end(), "relative_bias.weight 6 2"), with_t5.end());
}

TEST(TransformerTest, PostAndDeepNormHaveNoFinalNorm) {
  for (const NormPlacement placement : {NormPlacement::post, NormPlacement::deepnorm, NormPlacement::none}) {
    ArchitectureConfig config = small_architecture();
    config.model.norm_placement = placement;
    EXPECT_EQ(Transformer(config, DType::f32).parameters().find("final_norm.weight"), -1);
  }
}

TEST(TransformerTest, RolesTellWhatDecays) {
  for (const Combination& combination : norm_combinations()) {
    ArchitectureConfig config = combination.architecture();
    config.model.tie_embeddings = false;
    config.model.qk_norm = true;
    const Transformer model(config, DType::f32);
    for (const Parameter& parameter : model.parameters().all()) {
      const std::string& name = parameter.name;
      const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
      const bool table =
          has("position_embedding") || has("relative_bias") || has("relative_keys") || has("relative_values");
      const bool positive = has("kerple") || has("alibi") || has("fire.c") || has("fire.L_multiplier");
      const Role expected = positive                                             ? Role::positive
                            : !name.ends_with(".weight") || has("norm") || table ? Role::other
                                                                                 : Role::weight;
      EXPECT_EQ(parameter.role, expected) << name;
    }
  }
}

std::string message_of(const ArchitectureConfig& config) {
  try {
    resolved(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ResolvedTest, DerivesTheSizesThatAreZero) {
  ArchitectureConfig config = small_architecture();
  config.model.d_ff = 0;
  const ModelConfig model = resolved(config).model;
  EXPECT_EQ(model.n_kv_heads, 2);
  EXPECT_EQ(model.d_head, 4);
  EXPECT_EQ(model.d_ff, 32);
}

TEST(ResolvedTest, NamesBothKeysOfAContradiction) {
  const auto expect_all = [](const ArchitectureConfig& config, std::initializer_list<const char*> parts) {
    const std::string message = message_of(config);
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  ArchitectureConfig config = small_architecture();
  config.model.n_heads = 3;
  expect_all(config, {"model.d_model = 8", "model.n_heads = 3"});
  config = small_architecture();
  config.model.n_heads = 4;
  config.model.n_kv_heads = 3;
  expect_all(config, {"model.n_heads = 4", "model.n_kv_heads = 3"});
  config = small_architecture();
  config.model.n_heads = 0;
  expect_all(config, {"model.n_heads = 0"});
  config.model.d_head = 4;
  expect_all(config, {"model.n_heads = 0"});
  config = small_architecture();
  config.model.n_kv_heads = -1;
  expect_all(config, {"model.n_kv_heads = -1"});
  config = small_architecture();
  config.model.vocab_size = 0;
  expect_all(config, {"model.vocab_size = 0"});
  config = small_architecture("rope");
  config.position.options["rope_dims"] = int64_t{6};
  expect_all(config, {"position.rope_dims = 6", "model.d_head = 4"});
  config.position.options["rope_dims"] = int64_t{3};
  expect_all(config, {"position.rope_dims = 3"});
  config = small_architecture("rope");
  config.model.d_head = 3;
  expect_all(config, {"model.d_head = 3"});
  config.position.encoding = "none";
  EXPECT_EQ(message_of(config), "");
}

TEST(ResolvedTest, RefusesAnUnknownScheme) {
  EXPECT_THROW(Transformer(small_architecture("rotary"), DType::f32), Error);
}

}  // namespace
}  // namespace ropewalk::testing
