#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

using Digits = std::vector<std::string>;

/// The number modulo m; its digits are the most significant first.
int64_t modulo(const Digits& digits, int64_t m) {
  int64_t value = 0;
  for (const std::string& digit : digits) value = (value * 10 + std::stoll(digit)) % m;
  return value;
}

Digits part(const Digits& names, int64_t begin, int64_t count) {
  return {names.begin() + begin, names.begin() + begin + count};
}

Task addition(const std::string& digit_order) {
  return make_task({.task = "addition", .digit_order = digit_order});
}

class Addition : public testing::TestWithParam<std::string> {
 protected:
  Digits ordered(Digits digits) const {
    if (GetParam() == "least_significant_first") std::reverse(digits.begin(), digits.end());
    return digits;
  }
};

INSTANTIATE_TEST_SUITE_P(Order, Addition, testing::Values("most_significant_first", "least_significant_first"),
                         [](const auto& instance) { return instance.param; });

TEST_P(Addition, ReallyAdds) {
  // Residues modulo three primes fix a sum below 10^26, and leave one chance in 10^26 beyond.
  constexpr std::array<int64_t, 3> kPrimes = {1000000007, 998244353, 999999937};
  const Task task = addition(GetParam());
  for (const int64_t n : {1, 2, 3, 8, 40, 500}) {
    for (int64_t index = 0; index < 50; ++index) {
      const Problem p = problem(task, n, index);
      ASSERT_EQ(p.input[n + 1], "+");
      ASSERT_EQ(p.input[2 * n + 2], "=");
      const Digits a = ordered(part(p.input, 1, n));
      const Digits b = ordered(part(p.input, n + 2, n));
      const Digits sum = ordered(part(p.target, 2 * n + 2, n + 1));
      for (const int64_t prime : kPrimes) {
        ASSERT_EQ((modulo(a, prime) + modulo(b, prime)) % prime, modulo(sum, prime));
      }
      ASSERT_EQ(p.target.back(), "<end>");
      ASSERT_EQ(counted_targets(p.targets), n + 2);
      if (n > 1) {
        ASSERT_NE(a.front(), "0");
        ASSERT_NE(b.front(), "0");
      }
    }
  }
}

TEST_P(Addition, CarriesReachTheExtraDigitInSomeProblemsOnly) {
  int carried = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const Problem p = problem(addition(GetParam()), 5, index);
    const std::string top = ordered(part(p.target, 12, 6)).front();
    ASSERT_TRUE(top == "0" || top == "1");
    carried += top == "1";
  }
  EXPECT_GT(carried, 50);
  EXPECT_LT(carried, 150);
}

TEST_P(Addition, OneDigitOperandsReachFromZeroToNine) {
  std::vector<int> counts(10);
  for (int64_t index = 0; index < 1000; ++index)
    ++counts.at(std::stoi(problem(addition(GetParam()), 1, index).input[1]));
  for (const int count : counts) EXPECT_GT(count, 50);
}

TEST(AdditionOrder, IsTheSameProblemReadBackwards) {
  const Problem forwards = problem(addition("most_significant_first"), 6, 2);
  const Problem backwards = problem(addition("least_significant_first"), 6, 2);
  Digits a = part(backwards.input, 1, 6);
  std::reverse(a.begin(), a.end());
  EXPECT_EQ(a, part(forwards.input, 1, 6));
  Digits sum = part(backwards.target, 14, 7);
  std::reverse(sum.begin(), sum.end());
  EXPECT_EQ(sum, part(forwards.target, 14, 7));
}

}  // namespace
}  // namespace ropewalk
