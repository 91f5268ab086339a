#include "data/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace ropewalk {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    const CodePoint decoded = decode_utf8(text, 0);
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.size, text.size());
  }
}

TEST(Utf8, EncodesAsTheStandardSays) {
  std::string text;
  for (const char32_t c : {U'A', U'\u00E9', U'\u20AC', U'\U0001F600'}) append_utf8(text, c);
  EXPECT_EQ(text, "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(Utf8, AnEndIsUnfinishedIfMoreBytesCouldMakeItWhole) {
  for (const char32_t c : {U'A', U'\u00E9', U'\u0800', U'\u20AC', U'\uD7FF', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(unfinished_utf8("x" + text), 0U);
    for (std::size_t size = 1; size < text.size(); ++size) {
      EXPECT_EQ(unfinished_utf8("x" + text.substr(0, size)), size) << static_cast<uint32_t>(c);
    }
  }
  for (const char* never :
       {"", "\x80", "\xC0", "\xF5", "\xFF", "\xE0\x80", "\xED\xA0", "\xF0\x80", "\xF4\x90", "\xC3("}) {
    EXPECT_EQ(unfinished_utf8(never), 0U) << never;
  }
}

class Utf8Malformed : public testing::TestWithParam<std::string> {};

TEST_P(Utf8Malformed, IsRefused) {
  EXPECT_EQ(decode_utf8(GetParam(), 0).size, 0U);
}

INSTANTIATE_TEST_SUITE_P(Bytes, Utf8Malformed,
                         testing::Values("\x80", "\xBF", "\xC3", "\xC3(", "\xC0\x80", "\xC1\xBF", "\xE2\x82",
                                         "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
                                         "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                                         "\xF8\x88\x80\x80\x80", "\xFE", "\xFF", ""));

}  // namespace
}  // namespace ropewalk
