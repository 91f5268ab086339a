#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

TEST(Parity, AnswersTheNumberOfOnesModuloTwoInOneToken) {
  for (const int64_t length : {1, 2, 9, 1000}) {
    for (int64_t index = 0; index < 50; ++index) {
      const Problem p = problem(task_named("parity"), length, index);
      const auto ones = std::count(p.input.begin() + 1, p.input.begin() + 1 + length, "1");
      const auto zeros = std::count(p.input.begin() + 1, p.input.begin() + 1 + length, "0");
      ASSERT_EQ(ones + zeros, length);
      ASSERT_EQ(p.target.back(), ones % 2 == 1 ? "1" : "0");
      ASSERT_EQ(counted_targets(p.targets), 1);
    }
  }
}

TEST(Parity, BothAnswersAreEquallyLikely) {
  int odd = 0;
  for (int64_t index = 0; index < 2000; ++index) odd += problem(task_named("parity"), 7, index).target.back() == "1";
  EXPECT_NEAR(odd, 1000, 120);
}

}  // namespace
}  // namespace ropewalk
