#include "framework/random.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace ropewalk {
namespace {

using Words = r123::Philox4x32::ctr_type;

// The known answers that Salmon et al. publish with Random123 for philox4x32-10; the stream 0 leaves the counter as it
// is.
TEST(RandomTest, BlocksAreThePublishedOnes) {
  const auto none = static_cast<Stream>(0);
  EXPECT_EQ(random_block({.seed = 0, .stream = none}, 0), (Words{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  EXPECT_EQ(random_block({.seed = ~uint64_t{0}, .stream = none, .a = ~0U, .b = ~0U}, ~uint64_t{0}),
            (Words{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_EQ(
      random_block({.seed = 0x299f31d0a4093822, .stream = none, .a = 0x13198a2e, .b = 0x03707344}, 0x85a308d3243f6a88),
      (Words{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(RandomTest, EveryPartOfTheKeyMakesAnotherStream) {
  std::set<double> seen;
  const RandomKey key{.seed = 1, .stream = Stream::dropout, .a = 2, .b = 3};
  RandomKey other = key;
  seen.insert(random_uniform(key, 0));
  seen.insert(random_uniform(key, 1));
  seen.insert(random_uniform(key, 2));
  other.seed = uint64_t{1} << 32 | 1;
  seen.insert(random_uniform(other, 0));
  other = key, other.stream = Stream::initialization;
  seen.insert(random_uniform(other, 0));
  other = key, other.a = 3;
  seen.insert(random_uniform(other, 0));
  other = key, other.b = 2;
  seen.insert(random_uniform(other, 0));
  EXPECT_EQ(seen.size(), 7U);
}

TEST(RandomTest, UniformsNeverReachTheEndPoints) {
  EXPECT_GT(uniform_from(0, 0), 0.0);
  EXPECT_LT(uniform_from(~0U, ~0U), 1.0);
}

TEST(RandomTest, MomentsAreThoseOfTheDistributions) {
  constexpr int kCount = 200000;
  double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0, lag = 0, before = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = random_uniform({.seed = 5}, i);
    const double n = random_normal({.seed = 5, .a = 1}, i);
    u1 += u, u2 += u * u, n1 += n, n2 += n * n, n4 += n * n * n * n, lag += n * before;
    before = n;
  }
  EXPECT_NEAR(u1 / kCount, 0.5, 0.004);
  EXPECT_NEAR(u2 / kCount, 1.0 / 3, 0.004);
  EXPECT_NEAR(n1 / kCount, 0.0, 0.012);
  EXPECT_NEAR(n2 / kCount, 1.0, 0.017);
  EXPECT_NEAR(n4 / kCount, 3.0, 0.12);
  EXPECT_NEAR(lag / kCount, 0.0, 0.012);
}

}  // namespace
}  // namespace ropewalk
