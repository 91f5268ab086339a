#include "experiments/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ropewalk {
namespace {

std::string counting(int from, int step) {
  std::string out;
  for (int i = 0; i < 32; ++i) out += static_cast<char>(from + step * i);
  return out;
}

TEST(Crc32c, GivesThePublishedValues) {
  // RFC 3720, B.4, as numbers; and the check value of the CRC catalogues.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(counting(0, 1)), 0x46DD794EU);
  EXPECT_EQ(crc32c(counting(31, -1)), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, IsMaskedAsTfRecordMasksIt) {
  // ((crc >> 15) | (crc << 17)) + a282ead8 of e3069283.
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5U);
}

TEST(EventFile, ARecordIsLengthChecksumDataChecksum) {
  const std::string record = record_of("123456789");
  ASSERT_EQ(record.size(), 8U + 4 + 9 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 9), "123456789");
}

TEST(EventFile, TheFirstEventNamesTheVersion) {
  // 09 double wall_time, 1a string file_version.
  EXPECT_EQ(version_event(0.0), std::string("\x09\0\0\0\0\0\0\0\0\x1A\x0D", 11) + "brain.Event:2");
}

TEST(EventFile, ScalarsAreASummaryAtAStep) {
  const std::vector<TaggedScalar> scalars = {{"a/b", 1.5F}, {"c", -2.0F}};
  const std::string event = scalar_event(0.0, 300, scalars);
  const std::string expected = std::string("\x09\0\0\0\0\0\0\0\0", 9) + "\x10\xAC\x02" +  // step = 300
                               "\x2A\x16" +                                               // summary
                               std::string(
                                   "\x0A\x0A\x0A\x03"
                                   "a/b"
                                   "\x15\0\0\xC0\x3F",
                                   12) +  // value, tag, 1.5
                               std::string(
                                   "\x0A\x08\x0A\x01"
                                   "c"
                                   "\x15\0\0\0\xC0",
                                   10);
  EXPECT_EQ(event.size(), expected.size());
  EXPECT_EQ(event, expected);
}

}  // namespace
}  // namespace ropewalk
