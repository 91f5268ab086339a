#include "train/describe.h"

#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class Describe : public TinyTraining {
 protected:
  std::string text(const std::vector<std::string>& overrides) const { return describe(resolved(overrides)); }
  /// The line that begins with `key`, without it and the blanks around.
  std::string line(const std::vector<std::string>& overrides, const std::string& key) const {
    const std::string all = "\n" + text(overrides);
    const std::size_t at = all.find("\n" + key + " ");
    if (at == std::string::npos) return "";
    const std::size_t value = all.find_first_not_of(' ', at + 1 + key.size());
    return all.substr(value, all.find('\n', value) - value);
  }
};

TEST_F(Describe, TheCacheIsTabulatedByKindOfAttention) {
  // 16 / 4 = 4 columns a head, 2 layers, f32; sequences of 16.
  const std::vector<std::string> heads = {"model.n_heads=4"};
  EXPECT_EQ(line(heads, "key/value cache"), "bytes a token and layer, a token, and a sequence of 16 tokens (f32)");
  EXPECT_EQ(line(heads, "  mha, 4 heads"), "128, 256, 4.0 KiB  <- this model");
  EXPECT_EQ(line(heads, "  gqa, 2 heads"), "64, 128, 2.0 KiB");
  EXPECT_EQ(line(heads, "  mqa, 1 head"), "32, 64, 1.0 KiB");
  EXPECT_EQ(line(heads, "  mla, 16 + 2"), "72, 144, 2.2 KiB");
  EXPECT_EQ(line({"model.n_heads=4", "model.n_kv_heads=2", "train.dtype=f64"}, "  gqa, 2 heads"),
            "128, 256, 4.0 KiB  <- this model");
}

TEST_F(Describe, AWindowIsToldAsRadiusVisibleKeysAndReceptiveField) {
  EXPECT_EQ(line({}, "attention"), "causal, all positions");
  EXPECT_EQ(line({"attention.window_radius=3"}, "attention"),
            "causal, window radius 3 (4 visible keys, itself included), receptive field of 2 layers: 7 tokens");
  EXPECT_EQ(line({"attention.window_radius=3", "attention.causal=false"}, "attention"),
            "bidirectional, window radius 3 (7 visible keys, itself included), receptive field of 2 layers: 13 tokens");
  EXPECT_EQ(line({"attention.window_radius=3", "attention.global_tokens=2"}, "attention"),
            "causal, window radius 3 (4 visible keys, itself included), 2 global tokens at the start, receptive field "
            "of 2 layers: 7 tokens besides the global ones");
}

TEST_F(Describe, AnIndexerIsToldWithItsSelectionAndItsKeyInTheCache) {
  const std::vector<std::string> sparse = {"model.n_heads=4", "attention.pattern=top_k", "attention.top_k=4",
                                           "attention.index_heads=2", "attention.index_dim=8"};
  EXPECT_EQ(line(sparse, "  selection"),
            "of the keys that the mask leaves, the 4 of greatest index score (2 heads of 8, f32); the indexer reads "
            "all");
  EXPECT_EQ(line(sparse, "  mha, 4 heads"), "160, 320, 5.0 KiB  <- this model");
  EXPECT_EQ(line({"attention.pattern=top_k", "attention.top_k=16", "attention.index_precision=int8",
                  "attention.index_hadamard=true", "attention.index_warmup_steps=5"},
                 "  selection"),
            "of the keys that the mask leaves, the 16 of greatest index score (4 heads of 32, int8, Hadamard); up to "
            "16 positions all of them; in the first 5 steps only it learns");
  EXPECT_EQ(line({}, "  selection"), "");
}

}  // namespace
}  // namespace ropewalk
