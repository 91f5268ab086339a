#include "train/cache_size.h"

#include <gtest/gtest.h>

#include "layers/positions/options.h"
#include "layers/transformer.h"

namespace ropewalk {
namespace {

ArchitectureConfig architecture(int64_t n_heads, int64_t n_kv_heads, int64_t d_head) {
  ArchitectureConfig config;
  config.model = {.n_layers = 2, .d_model = 8, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .d_head = d_head};
  config.model.d_ff = 8;
  config.model.vocab_size = 5;
  config.position = default_position_config();
  config.position.encoding = "none";
  return config;
}

TEST(CacheSize, OfALargeModelIsTheKnownFigure) {
  ArchitectureConfig config = architecture(64, 64, 128);
  config.model.n_layers = 1;
  EXPECT_EQ(cache_bytes(config, 1, 4096, 2), 134'217'728);
  config.model.n_layers = 80;
  EXPECT_EQ(cache_bytes(config, 1, 4096, 2), 10'737'418'240);
  config.model.n_kv_heads = 8;
  EXPECT_EQ(cache_bytes(config, 1, 4096, 2), 10'737'418'240 / 8);
}

TEST(CacheSize, IsWhatACacheReserves) {
  for (const int64_t n_kv_heads : {4, 2, 1}) {
    const ArchitectureConfig config = architecture(4, n_kv_heads, 6);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Transformer model(config, dtype);
      EXPECT_EQ(cache_bytes(config, 3, 10, dtype), static_cast<double>(model.make_cache(3, 10).bytes()));
    }
  }
}

TEST(CacheSize, VariantsRunFromAllHeadsToOneAndTheLatent) {
  const std::vector<CacheVariant> variants = cache_variants(architecture(8, 2, 16));
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  for (const CacheVariant& variant : variants) {
    names.push_back(variant.name);
    numbers.push_back(variant.numbers);
    EXPECT_EQ(variant.configured, variant.numbers == 2 * 2 * 16) << variant.name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"mha, 8 heads", "gqa, 4 heads", "gqa, 2 heads", "mqa, 1 head", "mla, 64 + 8"}));
  EXPECT_EQ(numbers, (std::vector<int64_t>{2 * 8 * 16, 2 * 4 * 16, 2 * 2 * 16, 2 * 16, 64 + 8}));
}

TEST(CacheSize, TheLatentOfDeepSeekV2IsThatOfTwoAndAQuarterGroups) {
  const std::vector<CacheVariant> variants = cache_variants(architecture(128, 128, 128));
  EXPECT_EQ(variants.back().numbers, 576);
  EXPECT_EQ(variants.back().numbers, 9 * (2 * 128) / 4);
}

TEST(CacheSize, OfLatentAttentionIsThatOfTheConfiguredRanks) {
  ArchitectureConfig config = architecture(8, 8, 16);
  config.attention.kind = AttentionKind::mla;
  config.attention.mla_kv_rank = 20;
  config.attention.mla_rope_dims = 6;
  EXPECT_EQ(cache_numbers(config), 26);
  const std::vector<CacheVariant> variants = cache_variants(config);
  for (const CacheVariant& variant : variants) EXPECT_EQ(variant.configured, variant.name == "mla, 20 + 6");
  EXPECT_EQ(variants.back().numbers, 26);
}

}  // namespace
}  // namespace ropewalk
