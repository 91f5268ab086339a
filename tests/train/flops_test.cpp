#include "train/flops.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "train/config_resolve.h"

namespace ropewalk {
namespace {

Config config_of(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.n_layers=3", "model.d_model=12", "model.n_heads=4",
                                  "model.d_ff=20",    "model.d_head=4",   "model.vocab_size=300"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_config("", all, Purpose::model).config;
}

TEST(Flops, EachMatrixElementIsAMultiplyAndAnAdd) {
  // query, key, value [16, 12], output [12, 16], up [20, 12], down [12, 20], head [300, 12].
  EXPECT_EQ(count_flops(config_of({}), 1).linear, 2 * (3 * (4 * 16 * 12 + 2 * 20 * 12) + 300 * 12));
  // One key/value head of four; a gate.
  EXPECT_EQ(count_flops(config_of({"model.n_kv_heads=1", "model.activation=swiglu"}), 1).linear,
            2 * (3 * ((16 + 4 + 4 + 16) * 12 + 3 * 20 * 12) + 300 * 12));
}

TEST(Flops, APairIsTheMeanOfItsSourceAndItsTarget) {
  const Config config = config_of({"model.arch=encoder_decoder", "model.n_kv_heads=2"});
  const SequenceShape shape{.source = 5, .length = 3};
  // query and output [16, 12], key and value [8, 12].
  const double attention = (2 * 16 + 2 * 8) * 12;
  const double ffn = 2 * 20 * 12;
  const FlopCount source = count_source_flops(config, shape);
  EXPECT_EQ(source.linear, 2 * 3 * (attention + ffn + 2 * 8 * 12)) << "with key and value of the cross-attention";
  EXPECT_EQ(source.attention, 3 * 2 * 2 * 16 * 5) << "every source token sees every other";
  const FlopCount target = count_target_flops(config, shape);
  EXPECT_EQ(target.linear, 2 * (3 * (attention + ffn + 2 * 16 * 12) + 300 * 12));
  EXPECT_EQ(target.attention, 3 * 2 * 2 * 16 * (2 + 5)) << "1, 2 and 3 targets, and the source";
  const FlopCount mean = count_flops(config, shape);
  EXPECT_DOUBLE_EQ(mean.linear * 8, source.linear * 5 + target.linear * 3);
  EXPECT_DOUBLE_EQ(mean.attention * 8, source.attention * 5 + target.attention * 3);
  EXPECT_DOUBLE_EQ(mean.forward, mean.linear + mean.attention);
}

TEST(Flops, AWindowNarrowsBothStacksButNotTheCrossAttention) {
  const SequenceShape shape{.source = 5, .length = 3};
  const Config config = config_of({"model.arch=encoder_decoder", "attention.window_radius=1"});
  EXPECT_NEAR(count_source_flops(config, shape).attention, 3 * 2 * 2 * 16 * (2 + 3 + 3 + 3 + 2) / 5.0, 1e-9);
  EXPECT_NEAR(count_target_flops(config, shape).attention, 3 * 2 * 2 * 16 * ((1 + 2 + 2) / 3.0 + 5), 1e-9);
}

TEST(Flops, WithoutASourceAShapeIsALength) {
  const FlopCount one = count_flops(config_of({}), SequenceShape{.length = 7});
  EXPECT_EQ(one.forward, count_flops(config_of({}), 7).forward);
}

TEST(Flops, TrainingIsThreeTimesTheForwardPass) {
  const FlopCount flops = count_flops(config_of({}), 7);
  EXPECT_EQ(flops.forward, flops.linear + flops.attention);
  EXPECT_EQ(flops.training(), 3 * flops.forward);
}

TEST(Flops, AnIndexerCostsItsProjectionsAndScoresAndSparesTheKeysItDoesNotChoose) {
  const FlopCount dense = count_flops(config_of({}), 7);
  const FlopCount sparse = count_flops(
      config_of({"attention.pattern=top_k", "attention.top_k=3", "attention.index_heads=2", "attention.index_dim=8"}),
      7);
  // Queries [2 * 8, 12], a key [8, 12], weights [2, 12], in 3 layers.
  EXPECT_EQ(sparse.linear, dense.linear + 2 * 3 * (16 + 8 + 2) * 12);
  // 1 + 2 + 3 + 3 + 3 + 3 + 3 keys are attended to, 28 are scored.
  EXPECT_NEAR(sparse.attention, dense.attention * 18 / 28, 1e-9 * dense.attention);
  EXPECT_NEAR(sparse.indexer, 3.0 * 2 * 16 * 28 / 7, 1e-9 * sparse.indexer);
  EXPECT_EQ(sparse.forward, sparse.linear + sparse.attention + sparse.indexer);
  EXPECT_EQ(dense.indexer, 0);
}

TEST(Flops, AttentionCountsTheKeysThatTheMaskShows) {
  for (const bool causal : {true, false}) {
    for (const int64_t radius : {-1, 0, 2, 5, 40}) {
      for (const int64_t globals : {0, 1, 4}) {
        for (const int64_t length : {1, 6, 17}) {
          int64_t visible = 0;
          for (int64_t i = 0; i < length; ++i) {
            for (int64_t j = 0; j < length; ++j) {
              const bool in_window = radius < 0 || std::abs(i - j) <= radius || i < globals || j < globals;
              visible += in_window && (!causal || j <= i);
            }
          }
          const Config config = config_of({"attention.window_radius=" + std::to_string(radius),
                                           "attention.global_tokens=" + std::to_string(globals),
                                           std::string("attention.causal=") + (causal ? "true" : "false")});
          // Scores and weighted values: 2 FLOPs each a column of each of 4 heads of width 4, in 3 layers.
          const double expected = 3.0 * 2 * 2 * 16 * static_cast<double>(visible) / static_cast<double>(length);
          EXPECT_NEAR(count_flops(config, length).attention, expected, 1e-9 * expected)
              << "causal " << causal << ", radius " << radius << ", globals " << globals << ", length " << length;
        }
      }
    }
  }
}

TEST(Flops, RelativeVectorsAreMultipliedLikeKeysAndWeighedLikeValues) {
  const auto attention = [](const std::vector<std::string>& overrides) {
    return count_flops(config_of(overrides), 5).attention;
  };
  // Three layers of 16 columns; 1 to 5 visible keys, 3 in the mean.
  const double keys = 3 * 2 * 16;
  EXPECT_EQ(attention({"position.encoding=none"}), keys * 3 * 2);
  EXPECT_EQ(attention({"position.encoding=xl"}), keys * 3 * 3);
  EXPECT_EQ(attention({"position.encoding=shaw", "position.shaw_clip=1"}), keys * (3 * 2 + 2));
  EXPECT_EQ(attention({"position.encoding=shaw", "position.shaw_clip=1", "position.shaw_values=true"}),
            keys * (3 * 2 + 4));
  EXPECT_EQ(attention({"position.encoding=shaw", "position.shaw_clip=9"}), keys * 3 * 3) << "no more than keys";
  EXPECT_EQ(attention({"position.encoding=fire"}), keys * 3 * 2) << "no products of vectors";
}

}  // namespace
}  // namespace ropewalk
