#include "experiments/sweep_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "experiments/exit_code.h"
#include "run_binary.h"
#include "train/machine.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class SweepRun : public ::testing::Test {
 protected:
  SweepRun() {
    write_text(dir_ / "s.ini",
               "[model]\nn_layers = 2\nd_model = 16\nn_heads = 2\n[data]\nsource = task\nmax_length = 4\n[train]\n"
               "context_length = 16\nbatch_size = 2\nsteps = 20\ncheckpoint_every = 5\n[eval]\nlengths = 4, 8\n"
               "every = 0\ntokens = 64\n[sweep]\nseeds = 1..2\n[grid]\nposition.encoding = rope, none\n");
  }

  Finished sweep(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"sweep", "s.ini"});
    return run_binary(dir_.path(), std::move(more));
  }

  static std::vector<std::string> fields(const std::string& line) {
    std::vector<std::string> out;
    std::istringstream rest(line);
    for (std::string value; std::getline(rest, value, ',');) out.push_back(value);
    return out;
  }

  /// id -> status, from runs.csv.
  std::map<std::string, std::string> statuses() const {
    std::map<std::string, std::string> out;
    std::istringstream lines(read_text(dir_ / "runs/s/runs.csv"));
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> names = fields(line);
    const auto status = static_cast<std::size_t>(std::find(names.begin(), names.end(), "status") - names.begin());
    while (std::getline(lines, line)) out[fields(line).at(0)] = fields(line).at(status);
    return out;
  }

  std::size_t count(const std::string& run, const std::string& event) const {
    const std::string events = read_text(dir_ / ("runs/s/" + run + "/events.jsonl"));
    std::size_t n = 0;
    const std::string part = "\"kind\":\"" + event + "\"";
    for (std::size_t at = events.find(part); at != std::string::npos; at = events.find(part, at + 1)) ++n;
    return n;
  }

  bool has_checkpoint(const std::string& run) const {
    std::error_code none_yet;
    for (const auto& file : fs::directory_iterator(dir_ / ("runs/s/" + run + "/checkpoints"), none_yet)) {
      if (file.path().extension() == ".safetensors") return true;
    }
    return false;
  }

  /// Waits until a worker has written a checkpoint of this run, and returns its process.
  pid_t worker_of(const std::string& run) const {
    const std::string lock = dir_ / ("runs/s/" + run + "/.lock");
    for (int i = 0; i < 3000; ++i) {
      int pid = 0;
      if (has_checkpoint(run) && std::sscanf(read_text(lock).c_str(), "process %d", &pid) == 1 && pid > 0) return pid;
      usleep(10'000);
    }
    ADD_FAILURE() << "no worker for " << run;
    return -1;
  }

  /// A shell script that stands for the program whose `train CONFIG --run DIR` or `train --resume DIR` does a run.
  std::string worker_script(const std::string& text) const {
    write_text(dir_ / "worker.sh", "#!/bin/sh\n" + text);
    fs::permissions(dir_ / "worker.sh", fs::perms::owner_all);
    return dir_ / "worker.sh";
  }

  using Statuses = std::map<std::string, std::string>;
  const std::string kLong = "train.steps=1000000";
  TemporaryDirectory dir_;
};

TEST_F(SweepRun, RunsThatBeginWithAnotherWaitForItAndStartFromIt) {
  write_text(dir_ / "s.ini", read_text(dir_ / "s.ini") +
                                 "train.steps = 0, 10\n[variant first]\nposition.encoding = rope\ntrain.steps = 30\n"
                                 "[exclude]\nrule = position.encoding = none\n");
  const Finished done = sweep({"sweep.from=first", "--jobs", "3"});
  ASSERT_EQ(done.code, kDone) << done.err;
  const std::map<std::string, std::string> all = statuses();
  EXPECT_EQ(all.size(), 6u);
  for (const auto& [id, status] : all) EXPECT_EQ(status, "finished") << id;
  for (const char* id : {"rope-steps_0-s1", "rope-steps_10-s2"}) {
    const std::string first = std::string("runs/s/first-s") + id[std::string(id).size() - 1];
    EXPECT_TRUE(holds(read_text(dir_ / ("runs/s/" + std::string(id) + "/config.ini")), "from = " + first)) << id;
    EXPECT_TRUE(holds(read_text(dir_ / ("runs/s/" + std::string(id) + "/summary.json")), "\"step\": 30")) << id;
  }
  // Nothing is done twice.
  const Finished again = sweep({"sweep.from=first"});
  EXPECT_EQ(again.code, kDone) << again.err;
  EXPECT_EQ(count("first-s1", "started"), 1u);
  EXPECT_EQ(count("rope-steps_0-s1", "started"), 1u);
}

TEST_F(SweepRun, RunsWhoseBeginningFailsAreNotTried) {
  write_text(dir_ / "s.ini", read_text(dir_ / "s.ini") +
                                 "[variant first]\nposition.encoding = rope\noptim.lr = 1e30\noptim.grad_clip = 0\n"
                                 "optim.warmup_steps = 0\ntrain.steps = 40\n[exclude]\nrule = position.encoding = "
                                 "none\n");
  const Finished done = sweep({"sweep.from=first"});
  EXPECT_NE(done.code, kDone);
  EXPECT_EQ(statuses().at("first-s1"), "diverged");
  EXPECT_EQ(statuses().at("rope-s1"), "failed");
  EXPECT_TRUE(holds(done.err, "the run that it begins with, first-s1, diverged")) << done.err;
  EXPECT_FALSE(fs::exists((dir_ / "runs/s/rope-s1").c_str()));
}

TEST_F(SweepRun, TrainsEveryRunComparesAndReports) {
  const Finished result = sweep();
  ASSERT_EQ(result.code, kDone) << result.err;
  EXPECT_EQ(
      statuses(),
      (Statuses{{"none-s1", "finished"}, {"none-s2", "finished"}, {"rope-s1", "finished"}, {"rope-s2", "finished"}}));
  EXPECT_TRUE(holds(result.out, "rope    2/2")) << result.out;
  EXPECT_TRUE(holds(result.out, "2 seeds are too few to rank")) << result.out;
  EXPECT_TRUE(holds(result.out, "\nruns/s/report.html\n")) << result.out;
  EXPECT_TRUE(holds(read_text(dir_ / "runs/s/report.html"), "<polyline"));
  EXPECT_TRUE(holds(read_text(dir_ / "runs/s/rope-s1/output.txt"), "step 20/20"));
  EXPECT_FALSE(holds(result.err, "\x1b"));
  const Finished inspected = run_binary(dir_.path(), {"inspect", "runs/s"});
  EXPECT_EQ(inspected.out + "\nruns/s/report.html\n", result.out);
}

TEST_F(SweepRun, FinishedRunsAreNotTrainedAgainAndSeedsMayBeAdded) {
  ASSERT_EQ(sweep().code, kDone);
  const auto before = fs::last_write_time(dir_ / "runs/s/rope-s1/log.h5");
  const Finished again = sweep();
  EXPECT_EQ(again.code, kDone) << again.err;
  EXPECT_TRUE(holds(again.err, "4 runs, 4 done before")) << again.err;
  const Finished more = sweep({"train.seed=1..3"});
  EXPECT_EQ(more.code, kDone) << more.err;
  EXPECT_EQ(statuses().size(), 6U);
  EXPECT_TRUE(holds(more.out, "1. ") || holds(more.out, "nothing has a place of its own")) << more.out;
  EXPECT_EQ(fs::last_write_time(dir_ / "runs/s/rope-s1/log.h5"), before);
  EXPECT_EQ(count("rope-s1", "started"), 1U);
  EXPECT_EQ(count("rope-s1", "resumed"), 0U);
}

TEST_F(SweepRun, AnotherSweepOfTheSameNameIsRefused) {
  ASSERT_EQ(sweep().code, kDone);
  const Finished other = sweep({"optim.lr=0.5"});
  EXPECT_EQ(other.code, kUsage);
  EXPECT_TRUE(holds(other.err, "holds a sweep with other values: optim.lr: 0.001 against 0.5")) << other.err;
  EXPECT_TRUE(holds(other.err, "sweep.name=NAME")) << other.err;
  const Finished fewer = sweep({"train.seed=1"});
  EXPECT_EQ(fewer.code, kUsage);
  EXPECT_TRUE(holds(fewer.err, "rope-s2, none-s2")) << fewer.err;
  EXPECT_EQ(sweep({"optim.lr=0.5", "sweep.name=other"}).code, kDone);
  fs::create_directories(dir_ / "full");
  write_text(dir_ / "full/notes.txt", "mine");
  EXPECT_TRUE(holds(sweep({"--run", "full"}).err, "is not empty and holds no sweep"));
}

TEST_F(SweepRun, AWorkerThatDiesIsMarkedFailedAndTheOthersGoOn) {
  Binary running(dir_.path(), {"sweep", "s.ini", "--jobs", "2", kLong});
  ::kill(worker_of("rope-s1"), SIGKILL);
  worker_of("none-s1");  // has taken the place of the dead one
  for (int i = 0; i < 3000 && statuses()["rope-s1"] != "failed"; ++i) usleep(10'000);
  EXPECT_EQ(statuses()["rope-s1"], "failed");
  EXPECT_EQ(statuses()["none-s1"], "running");
  EXPECT_TRUE(holds(read_text(dir_ / "runs/s/runs.csv"), "killed by signal 9 (Killed)"));
  ::kill(running.pid(), SIGINT);
  const Finished result = running.wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(
      statuses(),
      (Statuses{
          {"none-s1", "interrupted"}, {"none-s2", "waiting"}, {"rope-s1", "failed"}, {"rope-s2", "interrupted"}}));
  EXPECT_TRUE(holds(result.err, "[1/4] rope-s1 failed: ")) << result.err;
  for (const char* run : {"none-s1", "rope-s2"}) {
    EXPECT_TRUE(holds(result.err, fmt::format("[1/4 done] {} interrupted; the same command goes on with it\n", run)))
        << "an interrupted run is none of those that are done: " << result.err;
  }

  // What the interrupted sweep has done is kept: its runs go on from their checkpoints.
  for (const char* run : {"rope-s1", "rope-s2", "none-s1"}) {
    EXPECT_EQ(count(run, "started"), 1U);
    EXPECT_TRUE(has_checkpoint(run));
  }
  Binary again(dir_.path(), {"sweep", "s.ini", "--jobs", "3", kLong});
  for (const char* run : {"rope-s1", "rope-s2", "none-s1"}) {
    for (int i = 0; i < 3000 && count(run, "resumed") < 1; ++i) usleep(10'000);
  }
  ::kill(again.pid(), SIGTERM);
  EXPECT_EQ(again.wait().code, 143);
  EXPECT_EQ(count("rope-s1", "resumed"), 1U);
  EXPECT_EQ(count("rope-s2", "resumed"), 1U);
  EXPECT_EQ(count("none-s1", "resumed"), 1U);
  EXPECT_EQ(count("rope-s1", "started"), 1U);
}

TEST_F(SweepRun, WorkersDoNotOutliveAKilledSweep) {
  Binary running(dir_.path(), {"sweep", "s.ini", "--jobs", "1", kLong});
  worker_of("rope-s1");
  ::kill(running.pid(), SIGKILL);
  EXPECT_EQ(running.wait().code, 128 + SIGKILL);
  for (int i = 0; i < 3000 && run_is_locked(dir_ / "runs/s/rope-s1"); ++i) usleep(10'000);
  EXPECT_FALSE(run_is_locked(dir_ / "runs/s/rope-s1"));
  EXPECT_EQ(count("rope-s1", "interrupted"), 1U) << "it wrote its checkpoint first";
}

TEST_F(SweepRun, ASecondSweepInTheSameDirectoryWaitsItsTurn) {
  Binary running(dir_.path(), {"sweep", "s.ini", "--jobs", "1", kLong});
  worker_of("rope-s1");
  const TemporaryDirectory elsewhere;
  write_text(elsewhere / "s.ini", read_text(dir_ / "s.ini"));
  const Finished second = run_binary(elsewhere.path(), {"sweep", "s.ini", kLong, "--run", dir_ / "runs/s"});
  EXPECT_EQ(second.code, kError);
  EXPECT_TRUE(holds(second.err, "is in use by process")) << second.err;
  ::kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait().code, 143);
}

TEST_F(SweepRun, RunsThatCannotBeDoneFailWithTheirReasonAndAreTriedAgain) {
  // One variant is larger than any machine: known only when its memory is counted.
  write_text(dir_ / "s.ini",
             read_text(dir_ / "s.ini") + "[variant big]\nmodel.d_model = 1048576\nmodel.d_ff = 16777216\n");
  const Finished result = sweep();
  EXPECT_EQ(result.code, kError) << result.err;
  EXPECT_EQ(statuses()["big-s1"], "failed");
  EXPECT_EQ(statuses()["rope-s2"], "finished");
  EXPECT_TRUE(holds(result.out, "big-s1, big-s2 failed: exit code")) << result.out;
  const Finished again = sweep();
  EXPECT_EQ(again.code, kError);
  EXPECT_TRUE(holds(again.err, "6 runs, 4 done before")) << again.err;
}

TEST_F(SweepRun, ARunFailsForTheReasonOfItsLastAttempt) {
  const SweepPlan plan = plan_sweep(dir_ / "s.ini", {"train.seed=1", "position.encoding=rope"});
  const SweepOptions options = {
      .jobs = 1,
      .directory = dir_ / "runs/s",
      .executable = worker_script("if [ $2 = --resume ]; then echo 'step 6/20  loss 2.0  '; exit 1; fi\n"
                                  "mkdir -p $4/checkpoints && touch $4/checkpoints/5.safetensors\n"
                                  "echo 'ropewalk: error: the first reason  '\necho 'at the end  '\nexit 2\n")};
  EXPECT_EQ(run_sweep(plan, options).results.runs.at(0).reason, "exit code 2: the first reason");
  EXPECT_EQ(run_sweep(plan, options).results.runs.at(0).reason, "exit code 1");
  EXPECT_EQ(read_text(dir_ / "runs/s/base-s1/output.txt"),
            "ropewalk: error: the first reason  \nat the end  \nstep 6/20  loss 2.0  \n");
}

/// Restricts this process to its first cores, at most so many, while it lives.
class FewCores {
 public:
  explicit FewCores(std::size_t most) {
    CPU_ZERO(&before_);
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t few;
    CPU_ZERO(&few);
    const std::vector<int> cores = allowed_cores();
    for (std::size_t i = 0; i < std::min(most, cores.size()); ++i) CPU_SET(static_cast<std::size_t>(cores[i]), &few);
    sched_setaffinity(0, sizeof few, &few);
  }
  ~FewCores() { sched_setaffinity(0, sizeof before_, &before_); }
  FewCores(const FewCores&) = delete;
  FewCores& operator=(const FewCores&) = delete;

 private:
  cpu_set_t before_;
};

TEST_F(SweepRun, SingleThreadedRunsHaveACoreEachWhereTheyFillTheMachine) {
  const FewCores few(2);
  const std::vector<int> cores = allowed_cores();
  const auto n = static_cast<int>(cores.size());
  /// The cores of each run, when `jobs` of them work at the same time.
  const auto cores_of_runs = [&](const std::string& name, int jobs, const std::string& threads) {
    const std::string worker = worker_script(
        fmt::format("mkdir -p $4 && grep Cpus_allowed_list /proc/$$/status | cut -f2 >$4/cores\n"
                    "for i in $(seq 600); do [ $(ls {}/*/cores | wc -l) -ge {} ] && exit 0; sleep 0.05; done\n",
                    dir_ / name, jobs));
    const SweepPlan plan = plan_sweep(dir_ / "s.ini", {"train.threads=" + threads, "position.encoding=rope",
                                                       fmt::format("train.seed=1..{}", jobs + 1)});
    run_sweep(plan, {.jobs = jobs, .directory = dir_ / name, .executable = worker});
    std::vector<std::string> out;
    for (int seed = 1; seed <= jobs; ++seed)
      out.push_back(read_text(dir_ / fmt::format("{}/base-s{}/cores", name, seed)));
    std::sort(out.begin(), out.end());
    return out;
  };
  std::vector<std::string> one_each;
  for (const int core : cores) one_each.push_back(fmt::format("{}\n", core));
  std::sort(one_each.begin(), one_each.end());
  EXPECT_EQ(cores_of_runs("full", n, "1"), one_each);
  if (n < 2) return;  // what follows needs cores to choose from
  const std::string both = fmt::format("{}{}{}\n", cores[0], cores[1] == cores[0] + 1 ? "-" : ",", cores[1]);
  EXPECT_EQ(cores_of_runs("half", 1, "1"), std::vector<std::string>{both});
  EXPECT_EQ(cores_of_runs("threads", 2, "2"), (std::vector<std::string>{both, both}));
}

TEST_F(SweepRun, DivergedRunsAreDone) {
  write_text(dir_ / "s.ini", read_text(dir_ / "s.ini") +
                                 "[variant wild]\noptim.lr = 1e30\noptim.warmup_steps = 0\noptim.grad_clip = 0\n");
  const Finished result = sweep();
  EXPECT_EQ(result.code, kDiverged) << result.err;
  EXPECT_EQ(statuses()["wild-s1"], "diverged");
  EXPECT_TRUE(holds(result.out, "wild    0/2")) << result.out;
  EXPECT_TRUE(holds(result.out, "wild-s1 diverged at step") || holds(result.out, "wild-s1, wild-s2 diverged at step"));
  const Finished again = sweep();
  EXPECT_EQ(again.code, kDiverged);
  EXPECT_TRUE(holds(again.err, "6 runs, 6 done before")) << again.err;
}

}  // namespace
}  // namespace ropewalk
