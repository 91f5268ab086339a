#include "data/windows.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "data/batch.h"
#include "tests/data/support.h"

namespace ropewalk {
namespace {

const std::vector<int64_t> kLengths = {16, 24, 32, 64, 128};

/// How often each held-out token is predicted with its loss counted.
std::map<int64_t, int> scored_tokens(const std::vector<Window>& windows) {
  std::map<int64_t, int> counts;
  for (const Window& w : windows) {
    for (int64_t p = w.first_scored; p < w.length; ++p) ++counts[w.start + p + 1];
  }
  return counts;
}

struct ProtocolCase {
  std::string name;
  std::function<std::vector<Window>(const WindowRequest&, int64_t length)> windows;
};

class EveryProtocol : public testing::TestWithParam<ProtocolCase> {};

INSTANTIATE_TEST_SUITE_P(
    Windows, EveryProtocol,
    testing::Values(
        ProtocolCase{"same_tokens", [](const auto& r, int64_t n) { return same_tokens_windows(r, n, 0); }},
        ProtocolCase{"same_tokens_tail_5", [](const auto& r, int64_t n) { return same_tokens_windows(r, n, 5); }},
        ProtocolCase{"non_overlapping", [](const auto& r, int64_t n) { return non_overlapping_windows(r, n); }},
        ProtocolCase{"sliding", [](const auto& r, int64_t n) { return sliding_windows(r, n, 0); }},
        ProtocolCase{"sliding_stride_1", [](const auto& r, int64_t n) { return sliding_windows(r, n, 1); }},
        ProtocolCase{"sliding_stride_7", [](const auto& r, int64_t n) { return sliding_windows(r, n, 7); }}),
    [](const auto& instance) { return instance.param.name; });

TEST_P(EveryProtocol, StaysInTheTextAndScoresNoTokenTwice) {
  for (const int64_t held_out : {129, 130, 200, 257, 1000, 5003}) {
    for (const int64_t tokens : {1, 100, 500, 1000000}) {
      const WindowRequest request{held_out, kLengths, tokens};
      for (const int64_t length : kLengths) {
        const std::vector<Window> windows = GetParam().windows(request, length);
        ASSERT_FALSE(windows.empty());
        for (const Window& w : windows) {
          ASSERT_EQ(w.length, length);
          ASSERT_GE(w.start, 0);
          ASSERT_LT(w.start + w.length, held_out);  // the last target
          ASSERT_GE(w.first_scored, 0);
          ASSERT_LT(w.first_scored, w.length);
        }
        for (const auto& [token, count] : scored_tokens(windows)) ASSERT_EQ(count, 1) << token;
      }
    }
  }
}

TEST_P(EveryProtocol, KeepsToTheBudgetOfTokens) {
  const WindowRequest request{100000, kLengths, 2000};
  for (const int64_t length : kLengths) {
    const auto scored = static_cast<int64_t>(scored_tokens(GetParam().windows(request, length)).size());
    EXPECT_LE(scored, 2000);
    EXPECT_GE(scored, 1500);
  }
}

TEST_P(EveryProtocol, CoversTheTextFromItsFirstToItsLastPart) {
  const WindowRequest request{100000, kLengths, 2000};
  for (const int64_t length : kLengths) {
    const std::vector<Window> windows = GetParam().windows(request, length);
    std::set<int64_t> tenths;
    for (const Window& w : windows) tenths.insert(w.start / 10000);
    EXPECT_EQ(tenths.size(), 10U);
    EXPECT_LT(windows.front().start, 200);
    EXPECT_GT(windows.back().start + length, 100000 - 200);
  }
}

TEST_P(EveryProtocol, DoesNotOverflowForHugeTextsAndNamesShortOnes) {
  const int64_t huge = int64_t{1} << 61;
  EXPECT_EQ(GetParam().windows({huge, kLengths, 300}, 128).empty(), false);
  for (const int64_t length : kLengths) {
    const WindowRequest exactly{129, kLengths, 1000};
    EXPECT_FALSE(GetParam().windows(exactly, length).empty());
    const WindowRequest one_less{128, kLengths, 1000};
    EXPECT_TRUE(contains(data_error([&] { GetParam().windows(one_less, length); }),
                         {"128 tokens", "length 128 needs 129", "eval.lengths", "validation_fraction"}));
  }
}

TEST_P(EveryProtocol, RefusesLengthsThatAreNone) {
  const std::vector<int64_t> zero = {0, 16};
  const std::vector<int64_t> none;
  EXPECT_TRUE(contains(data_error([&] { GetParam().windows({1000, zero, 100}, 16); }), {"eval.lengths holds 0"}));
  EXPECT_TRUE(contains(data_error([&] { GetParam().windows({1000, none, 100}, 16); }), {"eval.lengths is empty"}));
  EXPECT_TRUE(contains(data_error([&] { GetParam().windows({1000, kLengths, 100}, 256); }), {"256", "128"}));
  EXPECT_TRUE(contains(data_error([&] { GetParam().windows({1000, kLengths, 0}, 16); }), {"eval.tokens = 0"}));
}

TEST(SameTokens, EveryLengthScoresTheSameTokensAtTheSameEnds) {
  for (const int64_t tail : {0, 1, 7, 16}) {
    const WindowRequest request{5003, kLengths, 900};
    const std::vector<Window> reference = same_tokens_windows(request, kLengths.front(), tail);
    for (const int64_t length : kLengths) {
      const std::vector<Window> windows = same_tokens_windows(request, length, tail);
      ASSERT_EQ(windows.size(), reference.size());
      for (std::size_t i = 0; i < windows.size(); ++i) {
        ASSERT_EQ(windows[i].start + windows[i].length, reference[i].start + reference[i].length);
      }
      ASSERT_EQ(scored_tokens(windows), scored_tokens(reference));
    }
  }
}

TEST(SameTokens, ScoresTheTailOnlyByDefaultHalfTheShortestLength) {
  for (const Window& w : same_tokens_windows({5003, kLengths, 900}, 64, 0)) ASSERT_EQ(w.scored(), 8);
  for (const Window& w : same_tokens_windows({5003, kLengths, 900}, 64, 3)) ASSERT_EQ(w.scored(), 3);
}

TEST(SameTokens, RefusesATailBeyondTheShortestLength) {
  for (const int64_t tail : {17, -1}) {
    EXPECT_TRUE(contains(data_error([&] {
                           same_tokens_windows({5003, kLengths, 900}, 64, tail);
                         }),
                         {"eval.tail = " + std::to_string(tail), "16"}));
  }
}

TEST(NonOverlapping, ScoresAllOfEachWindowAndTheWholeTextWhereTheBudgetAllows) {
  const std::vector<int64_t> lengths = {16, 32, 128};
  for (const int64_t length : lengths) {
    const std::vector<Window> windows = non_overlapping_windows({1281, lengths, 1 << 20}, length);
    for (const Window& w : windows) ASSERT_EQ(w.first_scored, 0);
    EXPECT_EQ(scored_tokens(windows).size(), 1280U);
  }
}

TEST(NonOverlapping, LengthsThatDivideTheLongestScoreTheSameTokens) {
  const WindowRequest request{5003, kLengths, 900};
  const auto reference = scored_tokens(non_overlapping_windows(request, 128));
  for (const int64_t length : {16, 32, 64}) {
    EXPECT_EQ(scored_tokens(non_overlapping_windows(request, length)), reference);
  }
}

TEST(Sliding, ScoresTheLastStrideTokensOfEachWindow) {
  for (const Window& w : sliding_windows({5003, kLengths, 900}, 64, 7)) ASSERT_EQ(w.scored(), 7);
  for (const Window& w : sliding_windows({5003, kLengths, 900}, 64, 0)) ASSERT_EQ(w.scored(), 32);
}

TEST(Sliding, MovesByTheStrideWhereTheBudgetAllows) {
  const std::vector<int64_t> lengths = {64};
  const std::vector<Window> windows = sliding_windows({1025, lengths, 1 << 20}, 64, 32);
  ASSERT_EQ(windows.size(), 31U);
  for (std::size_t i = 0; i < windows.size(); ++i) ASSERT_EQ(windows[i].start, static_cast<int64_t>(32 * i));
}

TEST(Sliding, RefusesAStrideBeyondTheShortestLength) {
  for (const int64_t stride : {17, -1}) {
    EXPECT_TRUE(contains(data_error([&] {
                           sliding_windows({5003, kLengths, 900}, 64, stride);
                         }),
                         {"eval.stride = " + std::to_string(stride), "16"}));
  }
}

TEST(FillWindow, TargetsAreTheNextTokensFromTheFirstScoredOn) {
  TokenStore store(100);
  for (int32_t i = 0; i < 20; ++i) store.append(i);
  std::vector<int32_t> tokens(4);
  std::vector<int32_t> targets(4);
  fill_window({&store, 10, 10}, {.start = 2, .length = 4, .first_scored = 2}, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{12, 13, 14, 15}));
  EXPECT_EQ(targets, (std::vector<int32_t>{kIgnored, kIgnored, 15, 16}));
}

}  // namespace
}  // namespace ropewalk
