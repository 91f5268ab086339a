#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/tasks/pairs.h"
#include "tests/data/support.h"
#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

TEST(AssociativeRecall, EveryKeyIsAskedOnceAndAnsweredWithItsValue) {
  const Task task = task_named("associative_recall", 64);
  for (const int64_t n : {1, 2, 16, 64}) {
    for (int64_t index = 0; index < 20; ++index) {
      const Problem p = problem(task, n, index);
      std::map<std::string, std::string> values;
      for (int64_t pair = 0; pair < n; ++pair) {
        ASSERT_EQ(p.input[1 + 2 * pair][0], 'k');
        ASSERT_EQ(p.input[2 + 2 * pair][0], 'v');
        ASSERT_TRUE(values.emplace(p.input[1 + 2 * pair], p.input[2 + 2 * pair]).second);
      }
      std::set<std::string> asked;
      for (int64_t query = 0; query < n; ++query) {
        const int64_t at = 2 * n + 2 + 2 * query;
        ASSERT_TRUE(asked.insert(p.input[at]).second);
        ASSERT_EQ(p.target[at], values.at(p.input[at]));
        if (query + 1 < n) {
          ASSERT_EQ(p.target[at + 1], ".");
        }
      }
      ASSERT_EQ(counted_targets(p.targets), n);
    }
  }
}

TEST(AssociativeRecall, AGapMovesTheQueriesAwayAndChangesNothingElse) {
  const Task plain = task_named("associative_recall", 32);
  Task far = plain;
  far.gap = 9;
  for (const int64_t n : {1, 5, 32}) {
    EXPECT_EQ(problem_tokens(far, n), problem_tokens(plain, n) + 9);
    EXPECT_EQ(pair_tokens(far, n).source, pair_tokens(plain, n).source + 9);
    EXPECT_EQ(pair_tokens(far, n).target, pair_tokens(plain, n).target);
    for (int64_t index = 0; index < 10; ++index) {
      const Problem a = problem(plain, n, index);
      const Problem b = problem(far, n, index);
      Problem expected = a;
      expected.input.insert(expected.input.begin() + 2 * n + 1, 9, ">");
      expected.target.insert(expected.target.begin() + 2 * n + 1, 9, ".");
      EXPECT_EQ(b.input, expected.input);
      EXPECT_EQ(b.target, expected.target);
      // The nearest that a value can stand before its query.
      for (std::size_t at = 0; at < b.input.size(); ++at) {
        if (b.target[at] == ".") continue;
        for (std::size_t pair = 2; pair <= static_cast<std::size_t>(2 * n); pair += 2) {
          if (b.input[pair - 1] != b.input[at]) continue;
          EXPECT_EQ(b.input[pair], b.target[at]);
          EXPECT_GE(at - pair, 11U);
        }
      }
    }
  }
}

TEST(AssociativeRecall, QueriesComeInAnOrderOfTheirOwn) {
  constexpr int64_t n = 8;
  std::set<std::string> first_asked_places;
  for (int64_t index = 0; index < 200; ++index) {
    const Problem p = problem(task_named("associative_recall"), n, index);
    for (int64_t pair = 0; pair < n; ++pair) {
      if (p.input[1 + 2 * pair] == p.input[2 * n + 2]) first_asked_places.insert(std::to_string(pair));
    }
  }
  EXPECT_EQ(first_asked_places.size(), 8U);
}

TEST(AssociativeRecall, HasAsManyPairsAsKeysAndNoMore) {
  const Task task = task_named("associative_recall", 20);
  EXPECT_EQ(problem_tokens(task, 20), 81);
  EXPECT_TRUE(
      contains(data_error([&] { problem_tokens(task, 21); }), {"21 pairs", "alphabet has 20", "data.alphabet"}));
  EXPECT_TRUE(contains(data_error([] { task_named("associative_recall", 19); }), {"20 pairs", "alphabet has 19"}));
  EXPECT_EQ(task_symbols(task).size(), 4U + 2U * 20U);
}

TEST(AssociativeRecall, TheGreatestAlphabetWorks) {
  const Task task = task_named("associative_recall", kGreatestAlphabet);
  const Problem p = problem(task, kGreatestAlphabet, 0);
  EXPECT_EQ(counted_targets(p.targets), kGreatestAlphabet);
}

}  // namespace
}  // namespace ropewalk
