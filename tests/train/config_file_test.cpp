#include "train/config_file.h"

#include <gtest/gtest.h>

#include "tests/train/config_fixture.h"
#include "train/text.h"

namespace ropewalk {
namespace {

using testing::ConfigTest;
using testing::Messages;

class ConfigFile : public ConfigTest {
 protected:
  /// "section.key=value" of each entry of run.ini.
  std::vector<std::string> read(const std::string& text) {
    write("run.ini", text);
    errors.clear();
    std::vector<std::string> out;
    for (const Entry& entry : read_config_file("run.ini", errors).entries)
      out.push_back(entry.full_key() + "=" + entry.value);
    return out;
  }

  Messages errors;
};

TEST_F(ConfigFile, ReadsSectionsKeysAndDottedKeys) {
  EXPECT_EQ(read("top.key = 0\n[ model ]\n a=1\nb =  two words \n[train]\nc = x=y\n[model]\nd=4"),
            (Messages{"top.key=0", "model.a=1", "model.b=two words", "train.c=x=y", "model.d=4"}));
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, CommentsStartAtALineOrAfterABlank) {
  EXPECT_EQ(read("# one\n; two\n  # three\n[a] # four\np=/data/run#3/x;y # five\nq=1 ; six\nr=#7\ns= #8\n"),
            (Messages{"a.p=/data/run#3/x;y", "a.q=1", "a.r=", "a.s="}));
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, QuotesKeepCommentCharactersAndBlanks) {
  EXPECT_EQ(read("a=\" x # y \"  # note\nb=\"say \\\"hi\\\" \\\\ \\n\"\nc=it's \"here\"\n"),
            (Messages{"a= x # y ", "b=say \"hi\" \\ \\n", "c=it's \"here\""}));
  EXPECT_EQ(errors, Messages{});
  read("a = \"open\nb = \"x\" y\n");
  EXPECT_EQ(errors, (Messages{"run.ini:1: error: 'a': a quote is not closed",
                              "run.ini:2: error: 'b': ' y' follows the closing quote"}));
}

TEST_F(ConfigFile, QuotingIsTheInverseOfReading) {
  for (const std::string& value :
       {std::string("plain"), std::string("a#b"), std::string("a #b"), std::string("#a"), std::string(" a "),
        std::string("\"q\""), std::string("\\"), std::string("a ;\\\"b\""), std::string()}) {
    EXPECT_EQ(read("k = " + quoted_for_file(value) + "  # origin\n"), Messages{"k=" + value}) << value;
    EXPECT_EQ(errors, Messages{});
  }
}

TEST_F(ConfigFile, ReadsOverByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(read("\xEF\xBB\xBF[model]\r\na = 1\r\n\r\nb = 2"), (Messages{"model.a=1", "model.b=2"}));
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, EntriesKnowTheirLines) {
  write("run.ini", "\n[model]\n# note\na = 1\n");
  const ConfigLines lines = read_config_file("run.ini", errors);
  ASSERT_EQ(lines.entries.size(), 1U);
  EXPECT_EQ(lines.entries[0].origin.text(), "run.ini:4");
  ASSERT_EQ(lines.sections.size(), 1U);
  EXPECT_EQ(lines.sections[0].origin.line, 2);
}

TEST_F(ConfigFile, MalformedLinesAreNamedAllAtOnce) {
  read("[model\nlr 3\n= 4\n[]\n[a] b\nx # y = 3\n");
  EXPECT_EQ(errors, (Messages{"run.ini:1: error: expected '[section]', got '[model'",
                              "run.ini:2: error: expected 'key = value', got 'lr 3'",
                              "run.ini:3: error: expected 'key = value', got '= 4'",
                              "run.ini:4: error: expected '[section]', got '[]'",
                              "run.ini:5: error: expected '[section]', got '[a] b'",
                              "run.ini:6: error: expected 'key = value', got 'x # y = 3'"}));
}

TEST_F(ConfigFile, AKeyGivenTwiceNamesBothLines) {
  read("[a]\nx = 1\n[b]\nx = 1\n[a]\nx = 2\n");
  EXPECT_EQ(errors, Messages{"run.ini:6: error: 'a.x' is given twice in this file; first in line 2"});
  read("a.x = 1\n[a]\nx = 2\n");
  EXPECT_EQ(errors, Messages{"run.ini:3: error: 'a.x' is given twice in this file; first in line 1"});
}

TEST_F(ConfigFile, RulesOfExcludeMayRepeat) {
  EXPECT_EQ(read("[exclude]\nrule = a=1\nrule = b=2\n").size(), 2U);
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, IncludesAreRelativeToTheirFileAndComeFirst) {
  write("base/deep.ini", "[a]\nx = 0\ny = 0\n");
  write("base/base.ini", "include = deep.ini\n[a]\nx = 1\n");
  EXPECT_EQ(read("include = base/base.ini\n[a]\ny = 2\n"), (Messages{"a.x=0", "a.y=0", "a.x=1", "a.y=2"}));
  EXPECT_EQ(errors, Messages{});
  const ConfigLines lines = read_config_file("run.ini", errors);
  EXPECT_EQ(lines.entries[0].origin.text(), "base/deep.ini:2");
}

TEST_F(ConfigFile, OneFileMayBeIncludedByTwo) {
  write("common.ini", "[a]\nx = 0\n");
  write("one.ini", "include = common.ini\n");
  EXPECT_EQ(read("include = one.ini\ninclude = common.ini\n"), (Messages{"a.x=0", "a.x=0"}));
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, IncludeCyclesAreErrors) {
  write("b.ini", "include = ./run.ini\n");
  read("include = b.ini\n");
  EXPECT_EQ(errors, Messages{"b.ini:1: error: cannot include 'run.ini': include cycle: run.ini -> b.ini -> run.ini"});
  read("include = run.ini\n");
  EXPECT_EQ(errors, Messages{"run.ini:1: error: cannot include 'run.ini': include cycle: run.ini -> run.ini"});
}

TEST_F(ConfigFile, IncludesThatMultiplyAreStopped) {
  for (int i = 0; i < 20; ++i) {
    const std::string line = "include = level" + std::to_string(i + 1) + ".ini\n";
    write("level" + std::to_string(i) + ".ini", line + line);
  }
  write("level20.ini", "[a]\nx = 1\n");
  read("include = level0.ini\n");
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("more than 100 includes"), std::string::npos) << errors[0];
}

TEST_F(ConfigFile, AnIncludeInTheWrongPlaceIsAnError) {
  read("[a]\ninclude = b.ini\n");
  EXPECT_EQ(errors, Messages{"run.ini:2: error: 'include' must stand before the first section"});
  read("include = missing.ini\ninclude =\n");
  EXPECT_EQ(errors, (Messages{"run.ini:1: error: cannot include 'missing.ini': no such file",
                              "run.ini:2: error: 'include' names no file"}));
  errors.clear();
  read_config_text("include = run.ini\n", "config", errors);
  EXPECT_EQ(errors, Messages{"config:1: error: 'include' is only possible in a file"});
}

TEST_F(ConfigFile, FilesThatAreNoTextFilesAreRefused) {
  read_config_file("missing.ini", errors);
  std::filesystem::create_directory("folder");
  read_config_file("folder", errors);
  write("huge.ini", std::string((1 << 20) + 1, '#'));
  read_config_file("huge.ini", errors);
  write("binary.ini", std::string("[a]\nx\0=1\n", 9));
  read_config_file("binary.ini", errors);
  write("latin1.ini", "# caf\xE9\n");
  read_config_file("latin1.ini", errors);
  EXPECT_EQ(errors,
            (Messages{"missing.ini: error: no such file", "folder: error: is a directory, not a configuration file",
                      "huge.ini: error: larger than 1 MiB; not a configuration file",
                      "binary.ini: error: byte 0x00 at offset 5 is not UTF-8 text",
                      "latin1.ini: error: byte 0xe9 at offset 5 is not UTF-8 text"}));
}

TEST_F(ConfigFile, AMebibyteIsStillRead) {
  EXPECT_EQ(read("a = 1\n#" + std::string((1 << 20) - 7, '#')), Messages{"a=1"});
  EXPECT_EQ(errors, Messages{});
}

TEST_F(ConfigFile, Utf8IsKept) {
  EXPECT_EQ(read("p = d\xC3\xA9j\xC3\xA0/\xE2\x82\xAC/\xF0\x9F\x98\x80.txt\n"),
            Messages{"p=d\xC3\xA9j\xC3\xA0/\xE2\x82\xAC/\xF0\x9F\x98\x80.txt"});
  read("p = \xED\xA0\x80\n");
  EXPECT_EQ(errors.size(), 1U);
  read("p = \xC0\xAF\n");
  EXPECT_EQ(errors.size(), 1U);
  read("p = \xF0\x9F");
  EXPECT_EQ(errors.size(), 1U);
}

TEST_F(ConfigFile, OverridesAreKeyEqualsValue) {
  const std::vector<Entry> words = read_overrides({"a.b=c=d", "a.p=x # y", "foo", "=1", "a.x=1\n2"}, errors);
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0].value, "c=d");
  EXPECT_EQ(words[1].value, "x # y");
  EXPECT_EQ(words[0].origin.text(), "command line");
  EXPECT_EQ(errors, (Messages{"command line: error: expected 'section.key=value', got 'foo'",
                              "command line: error: expected 'section.key=value', got '=1'",
                              "command line: error: the value of 'a.x' is not one line of UTF-8 text"}));
}

TEST(ConfigErrorText, CountsAndCutsOff) {
  EXPECT_STREQ(ConfigError({"a: error: b"}).what(), "a: error: b\n1 error; nothing was started");
  EXPECT_STREQ(ConfigError({"a", "b"}).what(), "a\nb\n2 errors; nothing was started");
  const std::string many = ConfigError(std::vector<std::string>(250, "x")).what();
  EXPECT_NE(many.find("... and 150 more\n250 errors; nothing was started"), std::string::npos);
  EXPECT_EQ(printable("a\x1B[1m\n"), "a?[1m?");
  EXPECT_EQ(printable(std::string(79, 'a') + "\xC3\xA9"), std::string(79, 'a') + "...");
}

}  // namespace
}  // namespace ropewalk
