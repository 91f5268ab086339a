#include <gtest/gtest.h>

#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

ArchitectureConfig encoder_decoder(ArchitectureConfig config) {
  config.model.arch = Arch::encoder_decoder;
  return config;
}

/// Logits of `tokens` after the source, whose first `length` tokens count.
Tensor answer(Transformer& model, const std::vector<int32_t>& source, int64_t length,
              const std::vector<int32_t>& tokens, KeyValueCache* cache = nullptr) {
  const std::vector<int64_t> lengths = {length};
  // Room for the longest source and answer of a test, of which randomized positions are the first.
  model.prepare_source(static_cast<int64_t>(source.size()), {.capacity = 6});
  model.prepare((cache != nullptr ? cache->length() : 0) + static_cast<int64_t>(tokens.size()), {.capacity = 7});
  Workspace workspace;
  Tape tape(workspace, Mode::inference, &model.parameters());
  ForwardPass pass{.tape = tape, .sequences = 1, .length = static_cast<int64_t>(tokens.size()), .cache = cache};
  if (cache == nullptr || cache->length() == 0) {
    model.encode(pass, {.tokens = source.data(), .length = static_cast<int64_t>(source.size()), .lengths = lengths});
  } else {
    pass.memory_lengths = lengths;
  }
  return copy_of(model.logits(pass, tokens.data()).value());
}

class EncoderDecoderTest : public EveryPlacementTest {
 protected:
  template <class F>
  void for_placements(F&& f) const {
    EveryPlacementTest::for_placements([&](ArchitectureConfig config) { f(encoder_decoder(std::move(config))); });
  }
};

TEST_P(EncoderDecoderTest, GradientsMatchDifferences) {
  for_placements([](ArchitectureConfig config) { EXPECT_LT(loss_gradient_error(*make_model(config, 6), 6), 1e-8); });
}

TEST_P(EncoderDecoderTest, TheWholeSourceCountsAndItsPaddingDoesNot) {
  for_placements([](const ArchitectureConfig& config) {
    const auto model = make_model(config, 4);
    const std::vector<int32_t> tokens = some_tokens(4, 1);
    const std::vector<int32_t> source = some_tokens(6, 2);
    const Tensor before = answer(*model, source, 4, tokens);
    for (std::size_t changed = 0; changed < 6; ++changed) {
      std::vector<int32_t> other = source;
      other[changed] = (other[changed] + 3) % 7;
      const Tensor after = answer(*model, other, 4, tokens);
      for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(same_row(before, after, t), changed >= 4) << changed << ", token " << t;
    }
    // Without its padding the source says the same.
    const Tensor cut = answer(*model, {source.begin(), source.begin() + 4}, 4, tokens);
    EXPECT_LT(greatest_difference(before, cut), 1e-12);
  });
}

TEST_P(EncoderDecoderTest, DecodingWithACacheEqualsAPassWithoutOne) {
  for_placements([](const ArchitectureConfig& config) {
    const auto model = make_model(config, 7);
    const std::vector<int32_t> tokens = some_tokens(7, 1);
    const std::vector<int32_t> source = some_tokens(5, 2);
    const Tensor whole = answer(*model, source, 3, tokens);
    KeyValueCache cache = model->make_cache(1, 7);
    for (const std::vector<int64_t>& chunks : std::vector<std::vector<int64_t>>{{7}, {3, 1, 2, 1}}) {
      cache.clear();
      int64_t begin = 0;
      for (const int64_t chunk : chunks) {
        const Tensor part = answer(*model, source, 3, {tokens.begin() + begin, tokens.begin() + begin + chunk}, &cache);
        EXPECT_LT(greatest_difference(part, whole, begin * whole.shape[-1]), 1e-10);
        begin += chunk;
      }
    }
  });
}

/// Every encoding as it is by default, and every kind and pattern under two of them.
std::vector<Combination> combinations() {
  std::vector<Combination> out;
  for (const Combination& c : attention_combinations()) {
    const bool plain = c.sharing == Sharing::mha && c.pattern == Pattern::full;
    if (plain || c.encoding == "rope" || c.encoding == "t5") out.push_back(c);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Grid, EncoderDecoderTest, ::testing::ValuesIn(combinations()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(EncoderDecoderTest, ACacheGoesOnWithSomeOfItsSources) {
  const auto model = make_model(encoder_decoder(Combination{.encoding = "rope"}.architecture()), 3);
  const SomeSources sources(3);
  const std::vector<int32_t> tokens = some_tokens(9, 1);
  const auto token = [&](int64_t b, int64_t t) { return tokens[static_cast<std::size_t>(b * 3 + t)]; };
  KeyValueCache cache = model->make_cache(3, 3);
  const auto pass_of = [&](const std::vector<int32_t>& next, std::span<const int64_t> lengths) {
    model->prepare(cache.length() + 1);
    Workspace workspace;
    Tape tape(workspace, Mode::inference, &model->parameters());
    ForwardPass pass{.tape = tape, .sequences = cache.sequences(), .length = 1, .cache = &cache};
    if (cache.length() == 0) {
      sources.encode(*model, pass);
    } else {
      pass.memory_lengths = lengths;
    }
    return copy_of(model->logits(pass, next.data()).value());
  };
  pass_of({token(0, 0), token(1, 0), token(2, 0)}, {});
  const std::vector<int64_t> kept = {1, 2};
  cache.keep(kept);
  const std::vector<int64_t> lengths = {sources.lengths[1], sources.lengths[2]};
  const Tensor together = pass_of({token(1, 1), token(2, 1)}, lengths);
  for (const int64_t b : kept) {
    const std::vector<int32_t> source(sources.tokens.begin() + 5 * b, sources.tokens.begin() + 5 * b + 5);
    const Tensor alone =
        answer(*model, source, sources.lengths[static_cast<std::size_t>(b)], {token(b, 0), token(b, 1)});
    for (int64_t c = 0; c < 7; ++c) EXPECT_NEAR(together.at((b - 1) * 7 + c), alone.at(7 + c), 1e-12);
  }
}

TEST(EncoderDecoderTest, NormalizedQueriesAndKeysHaveRightGradients) {
  ArchitectureConfig config =
      encoder_decoder(Combination{.encoding = "sinusoidal", .sharing = Sharing::gqa}.architecture());
  config.model.qk_norm = true;
  config.model.norm_eps = 0.1;
  config.model.bias = false;
  config.model.tie_embeddings = false;
  EXPECT_LT(loss_gradient_error(*make_model(config, 5), 5), 1e-8);
}

TEST(EncoderDecoderTest, ItsLossIsTheSmoothedCrossEntropyOfItsLogits) {
  const auto model = make_model(encoder_decoder(Combination{.encoding = "rope"}.architecture()), 4);
  const std::vector<int32_t> tokens = some_tokens(8), targets = some_tokens(8, 1);
  const SomeSources sources(2);
  const auto loss = [&](const auto& of_pass) {
    Workspace workspace;
    Tape tape(workspace, Mode::inference, &model->parameters());
    ForwardPass pass{.tape = tape, .sequences = 2, .length = 4};
    sources.encode(*model, pass);
    return of_pass(pass).value().at(0);
  };
  for (const double smoothing : {0.0, 0.2}) {
    EXPECT_NEAR(loss([&](ForwardPass& pass) { return model->loss(pass, tokens.data(), targets.data(), 8, smoothing); }),
                loss([&](ForwardPass& pass) {
                  return cross_entropy(model->logits(pass, tokens.data()), targets.data(), 8, smoothing);
                }),
                1e-12);
  }
}

TEST(EncoderDecoderTest, NamesItsParametersByTheirStack) {
  ArchitectureConfig config = encoder_decoder(Combination{.encoding = "learned"}.architecture());
  config.model.n_layers = 1;
  const Transformer model(config, DType::f32);
  std::vector<std::string> names;
  for (const Parameter& p : model.parameters().all()) {
    if (p.name.ends_with(".weight")) names.push_back(p.name.substr(0, p.name.rfind('.')));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"token_embedding",
                                             "encoder.position_embedding",
                                             "encoder.blocks.0.attention_norm",
                                             "encoder.blocks.0.attention.query",
                                             "encoder.blocks.0.attention.key",
                                             "encoder.blocks.0.attention.value",
                                             "encoder.blocks.0.attention.output",
                                             "encoder.blocks.0.ffn_norm",
                                             "encoder.blocks.0.ffn.up",
                                             "encoder.blocks.0.ffn.down",
                                             "encoder.final_norm",
                                             "position_embedding",
                                             "blocks.0.attention_norm",
                                             "blocks.0.attention.query",
                                             "blocks.0.attention.key",
                                             "blocks.0.attention.value",
                                             "blocks.0.attention.output",
                                             "blocks.0.cross_attention_norm",
                                             "blocks.0.cross_attention.query",
                                             "blocks.0.cross_attention.key",
                                             "blocks.0.cross_attention.value",
                                             "blocks.0.cross_attention.output",
                                             "blocks.0.ffn_norm",
                                             "blocks.0.ffn.up",
                                             "blocks.0.ffn.down",
                                             "final_norm"}));
}

TEST(EncoderDecoderTest, ADecoderAloneHasNoEncoderAndADecoderOfOneNeedsItsMemory) {
  const auto plain = make_model(small_architecture(), 4);
  const auto crossing = make_model(encoder_decoder(Combination{.encoding = "none"}.architecture()), 4);
  Workspace workspace;
  Tape tape(workspace, Mode::inference, &plain->parameters());
  ForwardPass pass{.tape = tape, .sequences = 1, .length = 4};
  const std::vector<int32_t> tokens = some_tokens(4);
  EXPECT_THROW(plain->encode(pass, {.tokens = tokens.data(), .length = 4}), Error);
  Tape other(workspace, Mode::inference, &crossing->parameters());
  ForwardPass without{.tape = other, .sequences = 1, .length = 4};
  EXPECT_THROW(crossing->logits(without, tokens.data()), Error);
}

TEST(EncoderTest, HasNoCacheToDecodeWith) {
  ArchitectureConfig config = small_architecture("rope");
  config.model.arch = Arch::encoder;
  config.attention.causal = false;
  try {
    make_model(config, 4)->make_cache(1, 4);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("attention.causal = false"), std::string::npos) << error.what();
  }
}

TEST(EncoderTest, SeesWhatFollowsAsWellAsWhatPrecedes) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    ArchitectureConfig config = small_architecture(info.name);
    config.model.arch = Arch::encoder;
    config.attention.causal = false;
    const auto model = make_model(config, 5);
    const std::vector<int32_t> tokens = some_tokens(5);
    std::vector<int32_t> other = tokens;
    other[4] = (other[4] + 3) % 7;
    EXPECT_FALSE(same_row(logits_of(*model, tokens, 1), logits_of(*model, other, 1), 0)) << info.name;
    EXPECT_LT(loss_gradient_error(*model, 5), 1e-8) << info.name;
  }
}

}  // namespace
}  // namespace ropewalk::testing
