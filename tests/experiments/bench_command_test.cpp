#include "experiments/bench_command.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_binary.h"
#include "tests/train/storage_testing.h"
#include "train/config_error.h"

namespace ropewalk {
namespace {

using testing_support::Finished;
using testing_support::run_binary;

const std::vector<std::string> kSmall = {"model.n_layers=1",    "model.d_model=16",       "model.n_heads=2",
                                         "model.vocab_size=20", "train.context_length=8", "train.batch_size=8"};

Arguments call(const std::vector<std::string>& files, std::map<std::string, std::string> flags = {}) {
  flags.emplace("--seconds", "0");  // where it is not given
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
  EXPECT_EQ(refusal({"stop", "M"}), "unknown benchmark 'stop'; they are step, ops, scaling, variants, decode, recall");
  EXPECT_EQ(refusal({"scaling", "XS"}, {{"--over", "depth"}}),
            "--over 'depth': the axes are length, width, threads, jobs");
  EXPECT_THROW(bench_command(call({"step", "Q"})), ConfigError);
}

TEST(BenchCommand, AFlagOfAnotherBenchmarkIsRefused) {
  EXPECT_EQ(refusal({"ops", "XS"}, {{"--forward", ""}}), "'ropewalk bench ops' has no --forward");
  EXPECT_EQ(refusal({"step", "XS"}, {{"--over", "length"}}), "'ropewalk bench step' has no --over");
  EXPECT_EQ(refusal({"variants", "XS"}, {{"--values", "1"}}), "'ropewalk bench variants' has no --values");
  EXPECT_EQ(refusal({"step", "XS"}, {{"--only", "linear"}}), "'ropewalk bench step' has no --only");
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

/// Code, output and messages of `ropewalk bench`, small.
Finished bench(std::vector<std::string> words) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  return run_binary(testing_support::TemporaryDirectory().path(), words);
}

TEST(BenchCommand, AValueThatMakesNoModelIsAUsageErrorBeforeAnythingIsPrinted) {
  for (const std::vector<std::string>& over : std::vector<std::vector<std::string>>{{"width", "33"},
                                                                                    {"width", "16,33"},
                                                                                    {"width", "1000000000000"},
                                                                                    {"threads", "5000"},
                                                                                    {"jobs", "5000"},
                                                                                    {"length", "1000000000000000"}}) {
    const Finished result = bench({"scaling", "XS", "--over", over[0], "--values", over[1]});
    EXPECT_EQ(result.code, 2) << over[0] << " " << over[1] << ": " << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.find("ropewalk: bench"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("nothing was started"), std::string::npos) << result.err;
  }
  const Finished unknown = bench({"ops", "XS", "--only", "nonesuch"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("no op has 'nonesuch' in its name"), std::string::npos) << unknown.err;
}

TEST(BenchCommand, KeysWithoutEffectAreRefusedOrWarnedOf) {
  const Finished refused = bench({"step", "XS", "--seconds", "0", "data.path=my.txt"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("data.path=my.txt: size XS is measured on random tokens"), std::string::npos)
      << refused.err;
  const Finished warned =
      bench({"step", "XS", "--seconds", "0", "position.rope_theta=500", "eval.every=3", "train.keep_checkpoints=7"});
  EXPECT_EQ(warned.code, 0) << warned.err;
  for (const char* key : {"position.rope_theta = 500 changes nothing", "eval.every changes nothing",
                          "train.keep_checkpoints changes nothing"}) {
    EXPECT_NE(warned.err.find(key), std::string::npos) << warned.err;
  }
  EXPECT_EQ(bench({"step", "XS", "--seconds", "0"}).err.find("warning"), std::string::npos);
  const Finished variants = bench({"variants", "XS", "--seconds", "0", "position.rope_theta=500"});
  EXPECT_EQ(variants.err.find("warning"), std::string::npos) << "one of the variants reads it: " << variants.err;
}

TEST(BenchCommand, SaysOnStandardErrorWhatItIsDoing) {
  for (const char* name : {"step", "ops", "variants"}) {
    const Finished result = bench({name, "XS", "--seconds", "0"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find(std::string("ropewalk: bench ") + name + ": "), std::string::npos) << result.err;
    EXPECT_EQ(result.out.find("ropewalk: "), std::string::npos) << result.out;
  }
}

TEST(BenchCommand, SecondsMayHaveAFraction) {
  EXPECT_NO_THROW(bench_command(call({"step", "XS"}, {{"--seconds", "0.01"}})));
  for (const char* seconds : {"-1", "x", "1s", "nan", "inf", "1e9", "0.5.5"}) {
    EXPECT_NE(refusal({"step", "XS"}, {{"--seconds", seconds}}).find("must be a number from 0 to 86400"),
              std::string::npos)
        << seconds;
  }
}

TEST(BenchCommand, JsonHoldsTheKeysThatTheUserGave) {
  const nlohmann::json json = nlohmann::json::parse(bench_command(call({"step", "XS"}, {{"--json", ""}})));
  EXPECT_EQ(json.at("overrides"), (nlohmann::json{{"model.n_layers", 1},
                                                  {"model.d_model", 16},
                                                  {"model.n_heads", 2},
                                                  {"model.vocab_size", 20},
                                                  {"train.context_length", 8},
                                                  {"train.batch_size", 8}}));
  EXPECT_EQ(json.at("settings").at("train.micro_batch"), 8);
}

TEST(BenchCommand, OnlyTheChosenOpsAreInTheTable) {
  const nlohmann::json json =
      nlohmann::json::parse(bench_command(call({"ops", "XS"}, {{"--json", ""}, {"--only", "attention"}})));
  ASSERT_GT(json.at("rows").size(), 1U);
  for (const nlohmann::json& row : json.at("rows")) {
    EXPECT_NE(row.at("op").get<std::string>().find("attention"), std::string::npos);
  }
}

TEST(BenchCommand, EveryBenchmarkGivesTextAndJson) {
  for (const char* name : {"step", "ops", "variants", "decode", "recall"}) {
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
