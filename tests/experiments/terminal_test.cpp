#include "experiments/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <vector>

namespace ropewalk {
namespace {

TEST(Terminal, TextIsBrokenAtBlanksAndIndented) {
  EXPECT_EQ(wrapped("one two three", 80, 2), "one two three\n");
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three\n");
  EXPECT_EQ(wrapped("one  two", 80, 0), "one  two\n") << "blanks that are meant stay";
  EXPECT_EQ(wrapped("±± ±±", 5, 0), "±± ±±\n") << "columns count, not bytes";
  EXPECT_EQ(wrapped("a longerthanthat b", 6, 1), "a\n longerthanthat\n b\n");
  EXPECT_EQ(wrapped("", 6, 1), "\n");
}

TEST(Terminal, CountsAndListsReadAsWords) {
  EXPECT_EQ(counted(1, "run"), "1 run");
  EXPECT_EQ(counted(0, "seed"), "0 seeds");
  const std::vector<std::string> parts = {"a", "b", "c"};
  EXPECT_EQ(first_of(parts, 3), "a, b, c");
  EXPECT_EQ(first_of(parts, 2), "a, b and 1 more");
}

TEST(Terminal, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(duration_text(41.4), "41 s");
  EXPECT_EQ(duration_text(59.6), "1 min 00 s");
  EXPECT_EQ(duration_text(185), "3 min 05 s");
  EXPECT_EQ(duration_text(7800), "2 h 10 min");
  EXPECT_EQ(duration_text(-1), "?");
}

TEST(Terminal, TextOfUnknownOriginCannotDriveATerminal) {
  EXPECT_EQ(harmless("a\n\tb \xC3\xA9\xE2\x82\xAC"), "a\n\tb \xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(harmless("\x1B[2J\r\x7F"), "\\u{1B}[2J\\u{D}\\u{7F}");
  EXPECT_EQ(harmless("\xC2\x9B"
                     "0m"),
            "\\u{9B}0m")
      << "an 8-bit control sequence";
  EXPECT_EQ(harmless("a\xFF\xC3"), "a\\xFF\\xC3");
}

TEST(TextStyle, UnicodeFollowsTheLocale) {
  const char* names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  std::map<std::string, std::optional<std::string>> before;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    before[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
    unsetenv(name);
  }
  EXPECT_FALSE(style_of(-1).unicode);
  setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(style_of(-1).unicode);
  setenv("LC_CTYPE", "C", 1);
  EXPECT_FALSE(style_of(-1).unicode);
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(style_of(-1).unicode);
  for (const auto& [name, value] : before) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

}  // namespace
}  // namespace ropewalk
