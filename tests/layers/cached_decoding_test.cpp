#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/layers/combinations.h"

namespace ropewalk::testing {
namespace {

/// The logits [count, vocab] of `count` tokens for each sequence of the cache, which grows by them.
Tensor cached_logits(Transformer& model, KeyValueCache& cache, const std::vector<int32_t>& tokens) {
  const auto count = static_cast<int64_t>(tokens.size()) / cache.sequences();
  model.prepare(cache.length() + count, {.capacity = cache.capacity()});
  Workspace workspace;
  Tape tape(workspace, Mode::inference, &model.parameters());
  ForwardPass pass{.tape = tape, .sequences = cache.sequences(), .length = count, .cache = &cache};
  return copy_of(model.logits(pass, tokens.data()).value());
}

/// Logits of the sequence without a cache, all tokens in one pass, where a cache would have this capacity.
Tensor uncached_logits(Transformer& model, const std::vector<int32_t>& tokens, int64_t capacity) {
  model.prepare(static_cast<int64_t>(tokens.size()), {.capacity = capacity});
  return logits_of(model, tokens, 1);
}

/// Greatest difference between logits with a cache, the tokens given in chunks of these sizes, and without, in a pass
/// of all tokens up to the end of the chunk.
double chunked_error(Transformer& model, KeyValueCache& cache, const std::vector<int32_t>& tokens,
                     const std::vector<int64_t>& chunks) {
  cache.clear();
  double worst = 0;
  int64_t begin = 0;
  for (const int64_t chunk : chunks) {
    const std::vector<int32_t> part(tokens.begin() + begin, tokens.begin() + begin + chunk);
    const Tensor with_cache = cached_logits(model, cache, part);
    const Tensor without = uncached_logits(model, {tokens.begin(), tokens.begin() + begin + chunk}, cache.capacity());
    worst = std::max(worst, greatest_difference(with_cache, without, begin * with_cache.shape[-1]));
    begin += chunk;
  }
  return worst;
}

constexpr int64_t kLength = 8;

class CachedDecodingTest : public EveryPlacementTest {};

TEST_P(CachedDecodingTest, EqualsAPassWithoutACacheInAnyChunks) {
  for_placements([](const ArchitectureConfig& config) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      const auto model = make_model(config, kLength, dtype);
      const std::vector<int32_t> tokens = some_tokens(kLength);
      KeyValueCache cache = model->make_cache(1, kLength);
      for (const std::vector<int64_t>& chunks : std::vector<std::vector<int64_t>>{
               {8}, {5, 3}, {2, 3, 1, 2}, {4, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {6, 1}, {2, 1}}) {
        EXPECT_LT(chunked_error(*model, cache, tokens, chunks), dtype == DType::f64 ? 1e-10 : 1e-4)
            << ::testing::PrintToString(chunks);
      }
    }
  });
}

TEST_P(CachedDecodingTest, APromptPaddedAtItsLeftEqualsItself) {
  for_placements([](const ArchitectureConfig& config) {
    const auto model = make_model(config, kLength);
    const std::vector<int64_t> padding = {0, 3, 5};
    KeyValueCache cache = model->make_cache(3, kLength, padding);
    const std::vector<int32_t> tokens = some_tokens(3 * kLength);
    const auto part = [&](int64_t b, int64_t begin, int64_t end) {
      return std::vector<int32_t>(tokens.begin() + b * kLength + begin, tokens.begin() + b * kLength + end);
    };
    // Prompts of six places, of which the first padding[b] hold no token, then two tokens each.
    int64_t begin = 0;
    for (const int64_t end : {6, 7, 8}) {
      std::vector<int32_t> batch;
      for (int64_t b = 0; b < 3; ++b) {
        const std::vector<int32_t> row = part(b, begin, end);
        batch.insert(batch.end(), row.begin(), row.end());
      }
      const Tensor together = cached_logits(*model, cache, batch);
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t first = padding[static_cast<std::size_t>(b)];
        const Tensor alone = uncached_logits(*model, part(b, first, end), kLength);
        const int64_t v = alone.shape[-1];
        for (int64_t t = std::max(first, begin); t < end; ++t) {
          for (int64_t c = 0; c < v; ++c) {
            EXPECT_NEAR(together.at((b * (end - begin) + t - begin) * v + c), alone.at((t - first) * v + c), 1e-10)
                << "sequence " << b << ", place " << t;
          }
        }
      }
      begin = end;
    }
  });
}

TEST_P(CachedDecodingTest, NothingUnusedIsRead) {
  for_placements([](const ArchitectureConfig& config) {
    const auto model = make_model(config, kLength);
    const std::vector<int32_t> tokens = some_tokens(kLength);
    KeyValueCache cache = model->make_cache(1, kLength + 3);
    const auto poison = [&] {
      for (int64_t layer = 0; layer < config.model.n_layers; ++layer) {
        for (int64_t table = 0; table < cache.tables_a_layer(); ++table) {
          Tensor& rows = cache.table(layer, table);
          for (int64_t i = 0; i < rows.elements(); ++i) rows.set(i, std::numeric_limits<double>::quiet_NaN());
        }
      }
    };
    poison();
    EXPECT_LT(chunked_error(*model, cache, tokens, {3, 1, 4}), 1e-10);
    poison();
    EXPECT_LT(chunked_error(*model, cache, tokens, {2, 1}), 1e-10);
  });
}

INSTANTIATE_TEST_SUITE_P(Grid, CachedDecodingTest, ::testing::ValuesIn(attention_combinations()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(CachedDecodingTest, DynamicNtkTurnsOldKeysByTheFrequenciesOfTheWholeLength) {
  // One layer: in a deeper one what is cached of a token depends on the length of the pass it came in.
  ArchitectureConfig config = small_architecture("rope");
  config.model.n_layers = 1;
  config.position.options["rope_scaling"] = std::string("dynamic_ntk");
  config.position.options["rope_original_context"] = int64_t{3};
  config.position.options["rope_factor"] = 2.0;
  const auto model = make_model(config, kLength);
  KeyValueCache cache = model->make_cache(1, kLength);
  const std::vector<int32_t> tokens = some_tokens(kLength);
  for (const std::vector<int64_t>& chunks : std::vector<std::vector<int64_t>>{{8}, {4, 4}, {1, 1, 1, 1, 1, 2}, {2}}) {
    EXPECT_LT(chunked_error(*model, cache, tokens, chunks), 1e-10) << ::testing::PrintToString(chunks);
  }
}

TEST(KeyValueCacheTest, RefusesWhatDoesNotFit) {
  const auto model = make_model(small_architecture(), 4);
  KeyValueCache cache = model->make_cache(1, 4);
  cached_logits(*model, cache, some_tokens(3));
  EXPECT_THROW(cached_logits(*model, cache, some_tokens(2)), Error);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_THROW(cache.clear({1, 2}), Error);
  EXPECT_THROW(cache.clear({5}), Error);
  EXPECT_THROW(model->make_cache(0, 4), Error);
}

TEST(KeyValueCacheTest, GoesOnWithTheSequencesThatAreKeptWithoutTheirCommonPadding) {
  const auto model = make_model(small_architecture("learned"), 8);
  const std::vector<int64_t> padding = {0, 3, 4, 2};
  const int64_t places = 6;
  const std::vector<int32_t> tokens = some_tokens(4 * places);
  KeyValueCache cache = model->make_cache(4, 8, padding);
  cached_logits(*model, cache, tokens);
  const int64_t bytes = cache.bytes();
  cache.keep(std::vector<int64_t>{1, 3});
  EXPECT_EQ(cache.sequences(), 2);
  EXPECT_EQ(cache.length(), places - 2);
  EXPECT_EQ(std::vector<int64_t>(cache.padding().begin(), cache.padding().end()), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(cache.bytes(), bytes / 2);
  std::vector<int32_t> longest(tokens.begin() + 3 * places + 2, tokens.end());
  std::vector<int32_t> other(tokens.begin() + places + 3, tokens.begin() + 2 * places);
  for (const int32_t next : {5, 1, 6, 2}) {
    const Tensor together = cached_logits(*model, cache, {next, next});
    for (auto& [row, sequence] : {std::pair{1, &longest}, {0, &other}}) {
      sequence->push_back(next);
      const Tensor alone = uncached_logits(*model, *sequence, cache.capacity());
      const int64_t v = alone.shape[-1];
      for (int64_t c = 0; c < v; ++c) {
        EXPECT_NEAR(together.at(row * v + c), alone.at((static_cast<int64_t>(sequence->size()) - 1) * v + c), 1e-12);
      }
    }
  }
  EXPECT_EQ(cache.length(), 8) << "the learned table of 8 positions is used to its end";
  EXPECT_THROW(cache.keep(std::vector<int64_t>{}), Error);
  EXPECT_THROW(cache.keep(std::vector<int64_t>{1, 0}), Error);
  EXPECT_THROW(cache.keep(std::vector<int64_t>{2}), Error);
}

TEST(KeyValueCacheTest, KeepsTablesOfOffsetsForAPowerOfTwoOfPositions) {
  for (const char* encoding : {"xl", "fire", "kerple"}) {
    const auto model = make_model(small_architecture(encoding), 8);
    KeyValueCache cache = model->make_cache(1, 8);
    const int64_t empty = cache.bytes();
    const std::vector<int32_t> tokens = some_tokens(8);
    const void* table = nullptr;
    for (const int64_t made_for : {1, 2, 4, 4, 8, 8, 8, 8}) {
      const bool grows = cache.kept_tables(1).length < made_for;
      cached_logits(*model, cache, {tokens[static_cast<std::size_t>(cache.length())]});
      EXPECT_EQ(cache.kept_tables(1).length, made_for) << encoding;
      const void* now = cache.kept_tables(1).tables.at(0).bytes;
      EXPECT_TRUE(grows || now == table) << encoding << ", " << cache.length();
      table = now;
    }
    EXPECT_GT(cache.bytes(), empty);
    cache.clear();
    EXPECT_EQ(cache.bytes(), empty);
  }
}

TEST(KeyValueCacheTest, ForgetsWithItsTokensWhatWasMadeOfParameters) {
  for (const char* encoding : {"xl", "fire", "kerple"}) {
    const auto model = make_model(small_architecture(encoding), 8);
    const std::vector<int32_t> tokens = some_tokens(8);
    KeyValueCache cache = model->make_cache(1, 8);
    EXPECT_LT(chunked_error(*model, cache, tokens, {5, 1, 1, 1}), 1e-10);
    randomize(model->parameters(), 0.4, 12);
    EXPECT_LT(chunked_error(*model, cache, tokens, {2, 1, 1, 4}), 1e-10) << encoding;
  }
}

TEST(KeyValueCacheTest, TakesTwoRowsAHeadAndToken) {
  ArchitectureConfig config = small_architecture();
  config.model.n_heads = 4;
  config.model.d_head = 4;
  config.model.n_kv_heads = 2;
  const auto model = make_model(config, 4, DType::f32);
  EXPECT_EQ(model->make_cache(3, 10).bytes(), 2 * 3 * 10 * (2 * 2 * 4) * 4);
}

TEST(KeyValueCacheTest, OfLatentAttentionHoldsTheLatentAndTheRotatedKeyOnly) {
  ArchitectureConfig config = Combination{.encoding = "rope", .sharing = Sharing::mla}.architecture();
  const auto model = make_model(config, 4, DType::f32);
  EXPECT_EQ(model->make_cache(3, 10).bytes(), 2 * 3 * 10 * (5 + 2) * 4);
}

}  // namespace
}  // namespace ropewalk::testing
