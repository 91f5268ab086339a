#include "train/generate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "framework/error.h"
#include "tests/layers/combinations.h"
#include "tests/train/storage_testing.h"
#include "train/cache_size.h"
#include "train/decoder.h"

namespace ropewalk::testing {
namespace {

using testing_support::message_of;

using Ids = std::vector<int32_t>;

Generation run(Transformer& model, const GenerationRequest& request) {
  return generate(model, request, [](int64_t, int32_t) {});
}

/// Greedy tokens without a cache: the whole sequence anew for each.
Ids greedy_without_cache(Transformer& model, Ids sequence, int64_t tokens) {
  const int64_t capacity = static_cast<int64_t>(sequence.size()) + tokens - 1;
  Ids out;
  for (int64_t i = 0; i < tokens; ++i) {
    const auto length = static_cast<int64_t>(sequence.size());
    model.prepare(length, {.capacity = capacity});
    const Tensor logits = logits_of(model, sequence, 1);
    out.push_back(Sampler({.temperature = 0}).choose(logits, length - 1, 0, length));
    sequence.push_back(out.back());
  }
  return out;
}

class Generate : public ::testing::TestWithParam<Combination> {};

TEST_P(Generate, ABatchOfUnequalPromptsGivesWhatEachGivesAlone) {
  const auto model = make_model(GetParam().architecture(), 8);
  GenerationRequest request{.prompts = {{3}, {1, 2, 6, 5}, {0, 4}}, .tokens = 4};
  for (const double temperature : {0.0, 1.5}) {
    request.sampling = {.temperature = temperature, .top_k = 5, .top_p = 0.95, .seed = 9};
    const Generation together = run(*model, request);
    for (std::size_t i = 0; i < request.prompts.size(); ++i) {
      GenerationRequest alone = request;
      alone.prompts = {request.prompts[i]};
      alone.first_sequence = static_cast<int64_t>(i);
      EXPECT_EQ(together.sequences[i].tokens, run(*model, alone).sequences[0].tokens) << "prompt " << i + 1;
      EXPECT_EQ(together.sequences[i].tokens.size(), 4U);
      EXPECT_EQ(together.sequences[i].ending, Ending::tokens);
      if (temperature == 0) {
        EXPECT_EQ(together.sequences[i].tokens, greedy_without_cache(*model, request.prompts[i], 4));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Generate, ::testing::ValuesIn(attention_combinations()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(GenerateTest, PositionsThatDependOnTheLengthSeparatePromptsOfUnequalLength) {
  ArchitectureConfig config = small_architecture("rope");
  config.model.n_layers = 1;  // deeper caches depend on the passes that filled them
  config.position.options["rope_scaling"] = std::string("dynamic_ntk");
  config.position.options["rope_original_context"] = int64_t{3};
  config.position.options["rope_factor"] = 2.0;
  const auto model = make_model(config, 8);
  EXPECT_TRUE(model->depends_on_length());
  EXPECT_FALSE(make_model(small_architecture("rope"), 8)->depends_on_length());
  const GenerationRequest request{
      .prompts = {{3}, {1, 2, 6, 5}, {0, 4}, {2, 2, 1, 0}}, .tokens = 4, .sampling = {.temperature = 0}};
  const Generation together = run(*model, request);
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    EXPECT_EQ(together.sequences[i].tokens, greedy_without_cache(*model, request.prompts[i], 4));
  }
}

TEST(GenerateTest, EachTokenIsHandedOverAsItIsChosen) {
  const auto model = make_model(small_architecture("rope"), 8);
  std::vector<std::pair<int64_t, int32_t>> seen;
  const GenerationRequest request{.prompts = {{3}, {1, 2}}, .tokens = 3};
  const Generation out =
      generate(*model, request, [&](int64_t sequence, int32_t token) { seen.emplace_back(sequence, token); });
  ASSERT_EQ(seen.size(), 6U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].first, static_cast<int64_t>(i % 2)) << "step by step, not prompt by prompt";
    EXPECT_EQ(seen[i].second, out.sequences[i % 2].tokens[i / 2]);
  }
}

TEST(GenerateTest, TheSeedDecides) {
  const auto model = make_model(small_architecture("rope"), 8);
  GenerationRequest request{.prompts = {{3}, {3}}, .tokens = 30};
  const Generation first = run(*model, request);
  EXPECT_EQ(run(*model, request).sequences[0].tokens, first.sequences[0].tokens);
  EXPECT_NE(first.sequences[0].tokens, first.sequences[1].tokens) << "equal prompts are drawn for separately";
  request.sampling.seed = 2;
  EXPECT_NE(run(*model, request).sequences[0].tokens, first.sequences[0].tokens);
}

TEST(GenerateTest, ASequenceEndsWithTheEndTokenAndTheOthersGoOn) {
  const auto model = make_model(small_architecture("learned"), 8);
  GenerationRequest request{.prompts = {{3}, {1, 2}, {5}}, .tokens = 6, .sampling = {.seed = 3}};
  const Generation whole = run(*model, request);
  const int32_t end = whole.sequences[1].tokens[1];
  request.end_token = end;
  const Generation ended = run(*model, request);
  for (std::size_t i = 0; i < 3; ++i) {
    const Ids& all = whole.sequences[i].tokens;
    const auto at = std::find(all.begin(), all.end(), end);
    const Ids expected(all.begin(), at == all.end() ? at : at + 1);
    EXPECT_EQ(ended.sequences[i].tokens, expected) << i;
    EXPECT_EQ(ended.sequences[i].ending, at == all.end() ? Ending::tokens : Ending::end_token);
  }
}

TEST(GenerateTest, ALearnedTableIsUsedToItsEndBySequencesOfAnyLength) {
  const auto model = make_model(small_architecture("learned"), 8);
  ASSERT_EQ(model->greatest_length(), 8);
  const GenerationRequest request{
      .prompts = {{3}, some_tokens(8), some_tokens(5)}, .tokens = 100, .sampling = {.temperature = 0}};
  const Generation out = run(*model, request);
  for (std::size_t i = 0; i < 3; ++i) {
    const Ids& prompt = request.prompts[i];
    const auto tokens = static_cast<int64_t>(8 - prompt.size() + 1);
    EXPECT_EQ(out.sequences[i].tokens, greedy_without_cache(*model, prompt, tokens)) << i;
    EXPECT_EQ(out.sequences[i].ending, Ending::greatest_length);
  }
  GenerationRequest too_long = request;
  too_long.prompts = {{1}, some_tokens(9)};
  EXPECT_EQ(message_of<Error>([&] { run(*model, too_long); }),
            "prompt 2 has 9 tokens, but the model has positions for 8 (position.max_length); shorten it");
}

TEST(GenerateTest, FiguresCountWhatWasDone) {
  const ArchitectureConfig config = small_architecture("rope");
  const auto model = make_model(config, 8, DType::f32);
  const Generation out = run(*model, {.prompts = {{3}, {1, 2, 4}}, .tokens = 5});
  EXPECT_EQ(out.prompt_tokens, 4);
  EXPECT_EQ(out.decoded_tokens, 2 * 4);
  EXPECT_GT(out.prefill_seconds, 0);
  EXPECT_GT(out.decode_seconds, 0);
  EXPECT_EQ(static_cast<double>(out.cache_bytes), cache_bytes(model->config(), 2, 3 + 5 - 1, DType::f32));
}

TEST(GenerateTest, WhatCannotBeContinuedIsRefused) {
  const auto model = make_model(small_architecture("rope"), 8);
  const auto refusal = [&](const GenerationRequest& request) {
    return message_of<Error>([&] { run(*model, request); });
  };
  EXPECT_EQ(refusal({.prompts = {}, .tokens = 1}), "there is no prompt to go on from");
  EXPECT_EQ(refusal({.prompts = {{1}, {}}, .tokens = 1}), "prompt 2 is empty; a model needs a token to go on from");
  EXPECT_EQ(refusal({.prompts = {{1, 7}}, .tokens = 1}),
            "prompt 1 holds the token id 7; the vocabulary has 7 tokens, from 0 on");
  EXPECT_NE(refusal({.prompts = {{-1}}, .tokens = 1}).find("the token id -1"), std::string::npos);
  EXPECT_NE(refusal({.prompts = {{1}}, .tokens = 0}).find("tokens = 0"), std::string::npos);
  const std::string large = refusal({.prompts = {{1}}, .tokens = int64_t{1} << 50});
  EXPECT_NE(large.find("ask for fewer tokens"), std::string::npos) << large;
  ArchitectureConfig sees_all = small_architecture("rope");
  sees_all.attention.causal = false;
  const auto bidirectional = make_model(sees_all, 8);
  EXPECT_NE(message_of<Error>([&] { run(*bidirectional, {.prompts = {{1}}, .tokens = 1}); }).find("attention.causal"),
            std::string::npos);
}

TEST(DecoderTest, ALongPromptPassesInPartsAndGivesTheSame) {
  ArchitectureConfig config = small_architecture("alibi");
  const auto model = make_model(config, 8);
  const Ids tokens = some_tokens(2 * 700);
  Decoder decoder(*model, 2, 701, {0, 650});
  const Tensor parts = copy_of(decoder.feed(tokens, 700));
  for (const int64_t first : {int64_t{0}, int64_t{700 + 650}}) {
    const int64_t b = first / 700;
    const Ids alone(tokens.begin() + first, tokens.begin() + (b + 1) * 700);
    model->prepare(static_cast<int64_t>(alone.size()));
    const Tensor whole = logits_of(*model, alone, 1);
    const int64_t v = whole.shape[-1];
    for (int64_t c = 0; c < v; ++c) {
      EXPECT_NEAR(parts.at(b * v + c), whole.at((static_cast<int64_t>(alone.size()) - 1) * v + c), 1e-12);
    }
  }
  EXPECT_THROW(decoder.feed(Ids{1}, 1), Error) << "a token for each sequence";
  decoder.feed(Ids{1, 2}, 1);
  EXPECT_THROW(decoder.feed(Ids{1, 2}, 1), Error) << "the cache is full";
}

}  // namespace
}  // namespace ropewalk::testing
