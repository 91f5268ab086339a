#include "layers/positions/t5.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ropewalk::testing {
namespace {

/// distances[b] is the first distance of bucket b; the last bucket holds all that follow.
void expect_buckets(const std::vector<int64_t>& distances, bool bidirectional, int64_t buckets, int64_t max_distance) {
  for (std::size_t b = 0; b < distances.size(); ++b) {
    const int64_t end = b + 1 < distances.size() ? distances[b + 1] : 5000;
    for (int64_t n = distances[b]; n < end; ++n) {
      ASSERT_EQ(t5_bucket(-n, bidirectional, buckets, max_distance), static_cast<int32_t>(b)) << "distance " << n;
      if (bidirectional && n > 0) {
        ASSERT_EQ(t5_bucket(n, true, buckets, max_distance), static_cast<int32_t>(b) + buckets / 2) << "offset " << n;
      }
    }
  }
}

TEST(T5Test, CausalBucketsBeginWhereTheFormulaSays) {
  expect_buckets({0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113},
                 false, 32, 128);
}

TEST(T5Test, BidirectionalBucketsSpendHalfOnEachSign) {
  expect_buckets({0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}, true, 32, 128);
}

__extension__ using Wide = unsigned __int128;

/// With M wide and E exact buckets: exact + the greatest k < M with max^k E^(M-k) <= n^M, in whole numbers.
int32_t bucket_in_integers(int64_t n, int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2;
  if (n < exact) return static_cast<int32_t>(n);
  const int64_t wide = buckets - exact;
  const auto power = [](int64_t base, int64_t exponent) {
    Wide out = 1;
    for (int64_t i = 0; i < exponent; ++i) out *= static_cast<Wide>(base);
    return out;
  };
  int64_t k = 0;
  while (k + 1 < wide && power(max_distance, k + 1) * power(exact, wide - k - 1) <= power(n, wide)) ++k;
  return static_cast<int32_t>(exact + k);
}

TEST(T5Test, AgreesWithWholeNumbersToTheLastDistance) {
  for (const auto& [buckets, max_distance] :
       {std::pair<int64_t, int64_t>{16, 64}, {8, 32}, {8, 16}, {4, 16}, {16, 256}}) {
    for (int64_t n = 0; n < 3 * max_distance; ++n) {
      ASSERT_EQ(t5_bucket(-n, false, buckets, max_distance), bucket_in_integers(n, buckets, max_distance))
          << buckets << " buckets to " << max_distance << ", distance " << n;
    }
  }
}

TEST(T5Test, FutureKeysShareTheFirstBucketWhenCausal) {
  for (int64_t offset = 0; offset < 300; ++offset) EXPECT_EQ(t5_bucket(offset, false, 32, 128), 0);
}

}  // namespace
}  // namespace ropewalk::testing
