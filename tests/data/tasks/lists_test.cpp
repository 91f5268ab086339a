#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

class ListTask : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Tasks, ListTask, testing::Values("copy", "reverse", "sort"),
                         [](const auto& instance) { return instance.param; });

TEST_P(ListTask, AnswersTheListAndItsEnd) {
  for (const int64_t length : {1, 2, 13, 300}) {
    for (int64_t index = 0; index < 30; ++index) {
      const Problem p = problem(task_named(GetParam()), length, index);
      std::vector<int32_t> expected(p.tokens.begin() + 1, p.tokens.begin() + 1 + length);
      if (GetParam() == "reverse") std::reverse(expected.begin(), expected.end());
      if (GetParam() == "sort") std::stable_sort(expected.begin(), expected.end());
      ASSERT_EQ(p.tokens[length + 1], kSeparator);
      const std::vector<int32_t> answer(p.targets.begin() + length + 1, p.targets.end());
      expected.push_back(kEnd);
      ASSERT_EQ(answer, expected);
      ASSERT_EQ(counted_targets(p.targets), length + 1);
    }
  }
}

TEST_P(ListTask, DrawsFromTheWholeAlphabet) {
  const Task task = task_named(GetParam(), 7);
  std::set<int32_t> drawn;
  const Problem p = problem(task, 500, 0);
  drawn.insert(p.tokens.begin() + 1, p.tokens.begin() + 501);
  EXPECT_EQ(drawn.size(), 7U);
  EXPECT_EQ(*drawn.begin(), kFirstSymbol);
  EXPECT_EQ(*drawn.rbegin(), kFirstSymbol + 6);
  EXPECT_EQ(task_symbols(task).size(), 11U);
}

TEST(ListTasks, LargeAlphabetsAreNumbered) {
  EXPECT_EQ(task_symbols(task_named("copy", 62)).back(), "9");
  EXPECT_EQ(task_symbols(task_named("copy", 63)).back(), "s62");
}

}  // namespace
}  // namespace ropewalk
