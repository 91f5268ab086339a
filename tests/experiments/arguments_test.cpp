#include "experiments/arguments.h"

#include <gtest/gtest.h>

#include <functional>

namespace ropewalk {
namespace {

using Words = std::vector<std::string>;

const std::vector<Flag>& flags() {
  static const std::vector<Flag> all = {{"--jobs", "N", "", "-j"}, {"--dry-run", ""}, {"--output", "FILE", "", "-o"}};
  return all;
}

Arguments parse(const Words& words) {
  return parse_arguments("sweep", flags(), words);
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Arguments, FlagsMayStandAnywhereAndCarryTheirValueEitherWay) {
  const Arguments a = parse({"a.ini", "-j", "3", "model.n_layers=2", "--output=page.html", "--dry-run"});
  EXPECT_EQ(a.files, Words{"a.ini"});
  EXPECT_EQ(a.overrides, Words{"model.n_layers=2"});
  EXPECT_EQ(a.value("--jobs"), "3");
  EXPECT_EQ(a.value("--output"), "page.html");
  EXPECT_TRUE(a.has("--dry-run"));
  EXPECT_FALSE(a.has("--help"));
  EXPECT_EQ(a.value("--run", "here"), "here");
}

TEST(Arguments, FilesMayHoldEqualsSignsAndDashes) {
  const Arguments a = parse({"runs/lr=0.1/run.ini", "--", "-odd.ini", "data.path=x=y"});
  EXPECT_EQ(a.files, (Words{"runs/lr=0.1/run.ini", "-odd.ini"}));
  EXPECT_EQ(a.overrides, Words{"data.path=x=y"});
}

TEST(Arguments, TextFlagsTakeAnyTextAndComeInOrder) {
  const std::vector<Flag> with_text = {
      {"--prompt", "TEXT", "", "", true}, {"--file", "F", "", "", true}, {"--seed", "N"}};
  const Arguments a = parse_arguments(
      "sample", with_text, {"run", "--prompt", "--seed", "--file=x", "--prompt", "", "--prompt=a=b", "--seed", "3"});
  EXPECT_EQ(a.texts, (std::vector<std::pair<std::string, std::string>>{
                         {"--prompt", "--seed"}, {"--file", "x"}, {"--prompt", ""}, {"--prompt", "a=b"}}));
  EXPECT_EQ(a.files, Words{"run"});
  EXPECT_EQ(a.value("--seed"), "3");
  EXPECT_EQ(refused([&] {
              parse_arguments("sample", with_text, {"run", "--prompt"});
            }),
            "'--prompt' needs a value: --prompt TEXT");
}

TEST(Arguments, NumbersAreReadWholeAndWithinTheirLimits) {
  const std::vector<Flag> number = {{"--top-p", "P"}};
  const auto read = [&](const std::string& text) {
    return real_number(parse_arguments("sample", number, {"--top-p", text}), "--top-p", 0.5, 0, 1);
  };
  EXPECT_EQ(read("0.25"), 0.25);
  EXPECT_EQ(read("1e-3"), 1e-3);
  EXPECT_EQ(real_number({}, "--top-p", 0.5, 0, 1), 0.5);
  for (const char* bad : {"nan", "inf", "-0.1", "1.5", "0.5x", "0,5", "x"}) {
    EXPECT_EQ(refused([&] { read(bad); }), std::string("--top-p = '") + bad + "': must be a number from 0 to 1");
  }
}

TEST(Arguments, ANegativeNumberIsAValueAndNoFlag) {
  EXPECT_EQ(parse({"--jobs", "-1", "a.ini"}).value("--jobs"), "-1");
  EXPECT_EQ(parse({"-1"}).files, Words{"-1"});
}

TEST(Arguments, OverridesAreWordsWithAKeyBeforeTheirFirstEqualsSign) {
  const Arguments a = parse({"model.n_layers=2", "n_layers=2", "lr-0.1=x.ini", "./lr-0.1=x.ini"});
  EXPECT_EQ(a.overrides, (Words{"model.n_layers=2", "n_layers=2", "lr-0.1=x.ini"}));
  EXPECT_EQ(a.files, Words{"./lr-0.1=x.ini"});
}

TEST(Arguments, WhatIsWrongIsNamedWithTheWayOut) {
  EXPECT_EQ(refused([] { parse({"--job", "3"}); }), "unknown flag '--job' of 'ropewalk sweep'; did you mean '--jobs'?");
  EXPECT_EQ(refused([] { parse({"--zzzzzzz"}); }),
            "unknown flag '--zzzzzzz' of 'ropewalk sweep'; 'ropewalk sweep --help' lists its flags");
  EXPECT_EQ(refused([] { parse({"--model.d_model=64"}); }),
            "unknown flag '--model.d_model'; configuration keys stand without dashes: model.d_model=VALUE");
  EXPECT_EQ(refused([] { parse({"a.ini", "--jobs"}); }), "'--jobs' needs a value: --jobs N");
  EXPECT_EQ(refused([] { parse({"--jobs", "--dry-run"}); }), "'--jobs' needs a value: --jobs N");
  EXPECT_EQ(refused([] { parse({"--jobs="}); }), "'--jobs' needs a value: --jobs N");
  EXPECT_EQ(refused([] { parse({"--dry-run=1"}); }), "'--dry-run' takes no value");
  EXPECT_EQ(refused([] { parse({"-j", "1", "--jobs", "2"}); }), "'--jobs' is given twice; give it once");
}

TEST(Arguments, WholeNumbersKeepToTheirLimits) {
  EXPECT_EQ(whole_number(parse({}), "--jobs", 7, 1, 9), 7);
  EXPECT_EQ(whole_number(parse({"--jobs", "9"}), "--jobs", 7, 1, 9), 9);
  for (const char* wrong : {"0", "-1", "10", "2.5", "two", "99999999999999999999"}) {
    EXPECT_EQ(refused([&] {
                whole_number(parse({"--jobs", wrong}), "--jobs", 7, 1, 9);
              }),
              std::string("--jobs = '") + wrong + "': must be a whole number from 1 to 9");
  }
}

TEST(Arguments, RealNumbersKeepToTheirLimits) {
  EXPECT_EQ(real_number(parse({}), "--jobs", 0.25, 0, 9), 0.25);
  EXPECT_EQ(real_number(parse({"--jobs", "0.5"}), "--jobs", 7, 0, 9), 0.5);
  EXPECT_EQ(real_number(parse({"--jobs", "9"}), "--jobs", 7, 0, 9), 9);
  EXPECT_EQ(real_number(parse({"--jobs", "1e-3"}), "--jobs", 7, 0, 9), 0.001);
  for (const char* wrong : {"-0.1", "9.5", "1s", "two", "nan", "inf", "1e999"}) {
    EXPECT_EQ(refused([&] {
                real_number(parse({"--jobs", wrong}), "--jobs", 7, 0, 9);
              }),
              std::string("--jobs = '") + wrong + "': must be a number from 0 to 9");
  }
}

}  // namespace
}  // namespace ropewalk
