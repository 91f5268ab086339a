#include "experiments/bench_command.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/train/storage_testing.h"
#include "train/config_error.h"

namespace ropewalk {
namespace {

const std::vector<std::string> kSmall = {"model.n_layers=1",    "model.d_model=16",       "model.n_heads=2",
                                         "model.vocab_size=20", "train.context_length=8", "train.batch_size=8"};

Arguments call(const std::vector<std::string>& files, std::map<std::string, std::string> flags = {}) {
  flags.emplace("--seconds", "0");
  return {.flags = flags, .files = files, .overrides = kSmall};
}

std::string refusal(const std::vector<std::string>& files, const std::map<std::string, std::string>& flags = {}) {
  try {
    bench_command(call(files, flags));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(BenchCommand, UnknownNamesAreRefusedWithTheList) {
  EXPECT_EQ(refusal({"stop", "M"}), "unknown benchmark 'stop'; they are step, ops, scaling, variants, decode");
  EXPECT_EQ(refusal({"scaling", "XS"}, {{"--over", "depth"}}),
            "--over 'depth': the axes are length, width, threads, jobs");
  EXPECT_THROW(bench_command(call({"step", "Q"})), ConfigError);
}

TEST(BenchCommand, AFlagOfAnotherBenchmarkIsRefused) {
  EXPECT_EQ(refusal({"ops", "XS"}, {{"--forward", ""}}), "'ropewalk bench ops' has no --forward");
  EXPECT_EQ(refusal({"step", "XS"}, {{"--over", "length"}}), "'ropewalk bench step' has no --over");
  EXPECT_EQ(refusal({"variants", "XS"}, {{"--values", "1"}}), "'ropewalk bench variants' has no --values");
}

TEST(BenchCommand, ValuesAreAListOfNumbersOfOneAxis) {
  for (const char* list : {"a", "1,", ",1", "1;2", "0", "-3", "1,2x", "99999999999999999999"}) {
    EXPECT_NE(refusal({"scaling", "XS"}, {{"--over", "width"}, {"--values", list}}), "") << list;
  }
  EXPECT_NE(refusal({"scaling", "XS"}, {{"--values", "8"}}).find("--over"), std::string::npos);
  const std::string text =
      bench_command(call({"scaling", "XS"}, {{"--over", "width"}, {"--values", "8,16"}, {"--json", ""}}));
  const nlohmann::json rows = nlohmann::json::parse(text).at("tables").at(0).at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("value"), 8);
  EXPECT_EQ(rows[1].at("value"), 16);
}

TEST(BenchCommand, EveryBenchmarkGivesTextAndJson) {
  for (const char* name : {"step", "ops", "variants", "decode"}) {
    EXPECT_NE(bench_command(call({name, "XS"})), "") << name;
    const nlohmann::json json = nlohmann::json::parse(bench_command(call({name, "XS"}, {{"--json", ""}})));
    EXPECT_TRUE(json.is_object()) << name;
  }
  const nlohmann::json forward =
      nlohmann::json::parse(bench_command(call({"step", "XS"}, {{"--json", ""}, {"--forward", ""}})));
  EXPECT_EQ(forward.at("pass"), "forward");
}

TEST(BenchCommand, AFileIsMeasuredOnItsOwnDataAndASweepByItsFirstRun) {
  testing_support::TemporaryDirectory directory;
  const std::string run =
      "[model]\nn_layers = 1\nd_model = 8\nn_heads = 2\n[data]\nsource = task\nmax_length = 4\n[train]\n"
      "context_length = 16\nbatch_size = 2\nsteps = 5\n[eval]\nlengths = 4\ntokens = 64\n";
  const std::string file = directory / "run.ini";
  const std::string sweep = directory / "sweep.ini";
  testing_support::write_text(file, run);
  testing_support::write_text(sweep, run + "[sweep]\nseeds = 1..2\n[grid]\ntrain.batch_size = 3, 5\n");
  for (const auto& [path, tokens] : {std::pair{file, 2 * 16}, {sweep, 3 * 16}}) {
    const Arguments arguments{.flags = {{"--json", ""}, {"--seconds", "0"}}, .files = {"step", path}};
    const nlohmann::json json = nlohmann::json::parse(bench_command(arguments));
    EXPECT_EQ(json.at("tokens"), tokens) << path;
    EXPECT_EQ(json.at("name"), path == file ? "run" : "sweep");
  }
}

TEST(BenchCommand, TheSizeIsMWhereNoneIsGiven) {
  const nlohmann::json json = nlohmann::json::parse(bench_command(call({"step"}, {{"--json", ""}})));
  EXPECT_EQ(json.at("name"), "M");
}

}  // namespace
}  // namespace ropewalk
