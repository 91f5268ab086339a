#include "train/bench/decode.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "small_subject.h"
#include "train/cache_size.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

DecodeBench measured(const std::vector<std::string>& more = {}, std::vector<int64_t> positions = {4, 8, 24}) {
  return bench_decode(small_subject(more), {.positions = std::move(positions), .least_rounds = 2, .seconds = 0});
}

TEST(DecodeBench, EveryPositionIsTimedAndRatiosAreOverTheFirst) {
  for (const char* encoding : {"learned", "rope", "t5", "alibi", "sinusoidal"}) {
    const DecodeBench r = measured({std::string("position.encoding=") + encoding});
    EXPECT_EQ(r.encoding, encoding);
    EXPECT_EQ(r.rounds, 2);
    ASSERT_EQ(r.rows.size(), 3U);
    EXPECT_EQ(r.rows[2].position, 24) << "beyond the context of 8";
    for (const DecodeBench::Row& row : r.rows) {
      EXPECT_GT(row.us, 0);
      EXPECT_DOUBLE_EQ(row.ratio, row.us / r.rows[0].us);
    }
    EXPECT_GT(r.tokens_per_s, 0);
  }
}

TEST(DecodeBench, TheCacheIsThatOfTheWholeSequence) {
  // 2 layers, keys and values of 16 numbers in f32.
  EXPECT_EQ(measured().cache_bytes, 24 * 2 * 2 * 16 * 4);
}

TEST(DecodeBench, PositionsMustAscend) {
  EXPECT_THROW(measured({}, {8, 4}), Error);
  EXPECT_THROW(measured({}, {}), Error);
  EXPECT_THROW(measured({}, {0}), Error);
}

TEST(DecodeBench, JsonHoldsWhatTheTextShows) {
  const DecodeBench r = measured();
  const nlohmann::json json = nlohmann::json::parse(to_json(r));
  for (const char* key : {"name", "dtype", "encoding", "parameters", "rounds", "tokens_per_s", "cache_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  ASSERT_EQ(json.at("rows").size(), 3U);
  for (const char* key : {"position", "us", "ratio"}) EXPECT_TRUE(json.at("rows")[0].contains(key)) << key;
  const std::string text = to_text(r);
  EXPECT_NE(text.find("cache 6144 bytes (6.0 KiB), 256 a token"), std::string::npos) << text;
}

}  // namespace
}  // namespace ropewalk
