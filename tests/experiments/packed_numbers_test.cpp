#include "experiments/packed_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ropewalk {
namespace {

TEST(PackedNumbers, Base64IsThatOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(PackedNumbers, FloatsAndCodesAreLittleEndian) {
  const std::vector<float> one = {1.0F};
  EXPECT_EQ(packed_floats(one), base64(std::string("\0\0\x80\x3f", 4)));
  const std::vector<uint16_t> codes = {0x0102, 65535};
  EXPECT_EQ(packed_codes(codes), base64("\x02\x01\xff\xff"));
}

TEST(PackedNumbers, Log16HoldsEveryFloatToAFractionOfAPercent) {
  for (const float value : {std::numeric_limits<float>::denorm_min(), 1e-40F, 1e-30F, 0.0123F, 1.0F, 3.14159F, 1e20F,
                            std::numeric_limits<float>::max()}) {
    EXPECT_NEAR(from_log16(log16(value)) / value, 1, 0.0016) << value;
  }
  for (double value = 1e-6; value < 1e3; value *= 1.001) EXPECT_LE(log16(value), log16(value * 1.001));
  EXPECT_EQ(log16(0), kLog16Zero);
  EXPECT_EQ(log16(NAN), kLog16NotFinite);
  EXPECT_EQ(log16(INFINITY), kLog16NotFinite);
}

}  // namespace
}  // namespace ropewalk
