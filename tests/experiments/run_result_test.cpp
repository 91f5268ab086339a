#include "experiments/run_result.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "results_fixture.h"
#include "tests/train/storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr const char* kSummary = R"({
  "status": "finished", "seed": 7, "parameters": 1234, "wall_time": 2.5, "tokens_per_s": 1000.0, "steps": 20,
  "final": {"step": 20, "train_loss": 1.75,
            "eval": {"protocol": "same_tokens", "lengths": [64, 96, 128], "loss": [1.5, 1.75, null]}},
  "best": {"loss": [1.25, 1.5, null]}})";

RunResult read(const std::string& directory) {
  RunResult run;
  read_run_result(directory, run);
  return run;
}

TEST(RunResult, ReadsWhatARunCameTo) {
  const TemporaryDirectory dir;
  write_text(dir / "summary.json", kSummary);
  write_text(dir / "config.ini", "[position]\nencoding = learned\n[data]\npath = x\n[train]\ncontext_length = 64\n");
  const RunResult run = read(dir.path());
  EXPECT_TRUE(run.counts());
  EXPECT_EQ(run.seed, 7);
  EXPECT_EQ(run.steps, 20);
  EXPECT_EQ(run.parameters, 1234);
  EXPECT_EQ(run.train_length, 64);
  EXPECT_TRUE(run.positions_end);
  EXPECT_EQ(run.lengths, (std::vector<int64_t>{64, 96, 128}));
  EXPECT_EQ(run.loss[1], 1.75);
  EXPECT_TRUE(std::isnan(run.loss[2]));
  EXPECT_EQ(run.best_loss[0], 1.25);
  EXPECT_TRUE(run.exact_match.empty());
}

TEST(RunResult, IsNamedAfterItsDirectoryHoweverThatIsGiven) {
  const TemporaryDirectory dir;
  const std::string name = std::filesystem::path(dir.path()).filename().string();
  EXPECT_EQ(read(dir.path()).id, name);
  EXPECT_EQ(read(dir.path() + "/").id, name);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const std::string here = read(".").id;
  std::filesystem::current_path(before);
  EXPECT_EQ(here, name);
}

TEST(RunResult, TasksAreMeasuredByProblemLength) {
  const TemporaryDirectory dir;
  write_text(dir / "config.ini", "[data]\nsource = task\nmax_length = 9\n[train]\ncontext_length = 64\n");
  EXPECT_EQ(read(dir.path()).train_length, 9);
}

TEST(RunResult, ARunWithoutSummaryIsWaitingRunningKilledOrFailed) {
  const TemporaryDirectory dir;
  EXPECT_EQ(read(dir.path()).status, "waiting");
  {
    const RunLock lock(dir.path());
    EXPECT_EQ(read(dir.path()).status, "running");
  }
  write_text(dir / "log.h5", "");
  EXPECT_EQ(read(dir.path()).status, "killed");
  write_text(dir / "events.jsonl",
             "{\"kind\":\"started\",\"step\":0}\n{\"kind\":\"failed\",\"reason\":\"disk full\"}\n");
  EXPECT_EQ(read(dir.path()).status, "failed");
  EXPECT_EQ(read(dir.path()).reason, "disk full");
}

TEST(RunResult, ASummaryOfTheStartIsOfARunThatGoesOnWasKilledOrFailed) {
  const TemporaryDirectory dir;
  write_text(dir / "summary.json", R"({"status": "running", "final": {"step": 0, "train_loss": null, "eval": null}})");
  {
    const RunLock lock(dir.path());
    EXPECT_EQ(read(dir.path()).status, "running");
  }
  EXPECT_EQ(read(dir.path()).status, "killed");
  write_text(dir / "events.jsonl", "{\"kind\":\"failed\",\"reason\":\"disk full\"}\n");
  EXPECT_EQ(read(dir.path()).status, "failed") << "a full disk kept the summary from saying so";
  EXPECT_EQ(read(dir.path()).reason, "disk full");
  write_text(dir / "summary.json", R"({"status": "failed", "error": "no room"})");
  EXPECT_EQ(read(dir.path()).reason, "no room");
}

TEST(RunResult, DamagedSummariesAreFailedRunsNotCrashes) {
  const TemporaryDirectory dir;
  for (const char* text :
       {"", "{", "[1,2]", "null", "{\"status\": 3}", "{\"status\": \"perfect\"}",
        "{\"status\": \"finished\", \"final\": [], \"best\": 3, \"seed\": \"x\"}",
        "{\"status\": \"finished\", \"final\": {\"eval\": {\"lengths\": [\"a\", 64, {}], \"loss\": 5}}}",
        "{\"status\": \"diverged\", \"diverged\": {\"step\": \"x\", \"module\": 5}}"}) {
    write_text(dir / "summary.json", text);
    const RunResult run = read(dir.path());
    EXPECT_TRUE(run.status == "failed" || run.status == "finished" || run.status == "diverged") << text;
    EXPECT_EQ(run.loss.size(), run.lengths.size()) << text;
  }
  for (std::size_t cut = 0; cut < std::string(kSummary).size(); cut += 7) {
    write_text(dir / "summary.json", std::string(kSummary).substr(0, cut));
    EXPECT_EQ(read(dir.path()).status, "failed") << cut;
  }
}

TEST(RunResult, ADirectoryWithoutARunIsRefused) {
  const TemporaryDirectory dir;
  EXPECT_NE(message_of<std::runtime_error>([&] { read_single_run(dir.path()); }).find("holds neither a run"),
            std::string::npos);
}

TEST(ResultsCsv, HasARowARunAndAColumnALength) {
  SweepResults results;
  results.varying_keys = {"position.encoding"};
  results.runs = {finished_run("rope", 1, {1.5, 2.0}), ended_run("a,\"b\"", 2, "failed", "line one\nand two")};
  results.runs[0].values = {"rope"};
  results.runs[1].values = {"a,\"b\""};
  EXPECT_EQ(results_csv(results),
            "id,variant,position.encoding,seed,status,steps,parameters,wall_time,tokens_per_s,train_loss,protocol,"
            "loss_64,loss_96,best_loss_64,best_loss_96,reason\n"
            "rope-s1,rope,rope,1,finished,0,0,,,,same_tokens,1.5,2,1.5,2,\n"
            "\"a,\"\"b\"\"-s2\",\"a,\"\"b\"\"\",\"a,\"\"b\"\"\",2,failed,0,0,,,,,,,,,\"line one\nand two\"\n");
}

}  // namespace
}  // namespace ropewalk
