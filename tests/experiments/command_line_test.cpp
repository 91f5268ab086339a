#include "experiments/command_line.h"

#include <gtest/gtest.h>

#include "experiments/command_help.h"
#include "experiments/exit_code.h"
#include "run_binary.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr const char* kRun =
    "[model]\nn_layers = 1\nd_model = 8\nn_heads = 2\n[data]\nsource = task\nmax_length = 4\n[train]\n"
    "context_length = 16\nbatch_size = 2\nsteps = 5\n[eval]\nlengths = 4, 8\ntokens = 64\n";

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() { write_text(dir_ / "run.ini", kRun); }
  Finished run(std::vector<std::string> words) { return run_binary(dir_.path(), std::move(words)); }
  std::string refused(std::vector<std::string> words) {
    const Finished result = run(std::move(words));
    EXPECT_EQ(result.code, kUsage) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }

  TemporaryDirectory dir_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(CommandLine, HelpIsDataAndNoArgumentsAreAnError) {
  const Finished help = run({"--help"});
  EXPECT_EQ(help.code, kDone);
  EXPECT_EQ(help.err, "");
  for (const CommandInfo& info : command_infos()) EXPECT_TRUE(holds(help.out, "\n  " + info.name + " ")) << info.name;
  EXPECT_EQ(run({"help"}).out, help.out);
  const Finished nothing = run({});
  EXPECT_EQ(nothing.code, kUsage);
  EXPECT_EQ(nothing.err, help.out);
}

TEST_F(CommandLine, EveryCommandHasHelpThatNamesItsFlags) {
  for (const CommandInfo& info : command_infos()) {
    const Finished help = run({info.name, "--help"});
    EXPECT_EQ(help.code, kDone);
    EXPECT_TRUE(help.out.starts_with("usage: ropewalk " + info.name)) << help.out;
    for (const Flag& flag : info.flags) EXPECT_TRUE(holds(help.out, flag.name)) << info.name << " " << flag.name;
    EXPECT_EQ(run({"help", info.name}).out, help.out);
  }
  EXPECT_TRUE(holds(run({"help", "keys"}).out, "position.encoding"));
  EXPECT_TRUE(run({"--version"}).out.starts_with("ropewalk "));
}

TEST_F(CommandLine, TrainFromGoesOnFromARunWithItsOwnOrAnotherFile) {
  ASSERT_EQ(run({"train", "run.ini", "--run", "first"}).code, kDone);
  const Finished own = run({"train", "--from", "first", "--run", "own", "train.steps=2", "optim.warmup_steps=0"});
  ASSERT_EQ(own.code, kDone) << own.err;
  EXPECT_EQ(own.out, "own\n");
  EXPECT_TRUE(holds(read_text(dir_ / "own/config.ini"), "\nfrom = first  # command line\n"));
  const Finished other = run({"train", "--from=first", "run.ini", "train.steps=0", "position.rope_scaling=linear",
                              "position.rope_factor=2", "--name", "scaled"});
  ASSERT_EQ(other.code, kDone) << other.err;
  EXPECT_TRUE(other.out.starts_with("runs/scaled/")) << other.out;
  EXPECT_TRUE(holds(refused({"train", "--from", "first", "run.ini", "model.d_model=16", "--run", "x"}),
                    "error: model.d_model: 16 against 8"));
  EXPECT_TRUE(holds(refused({"train", "--from", "nowhere", "run.ini"}), "train.from = nowhere: holds no run"));
}

TEST_F(CommandLine, UsageErrorsNameTheWayOut) {
  EXPECT_EQ(refused({"trian", "run.ini"}), "ropewalk: error: unknown command 'trian'; did you mean 'train'?\n");
  EXPECT_TRUE(holds(refused({"xyzzy"}), "'ropewalk --help' lists the commands"));
  EXPECT_TRUE(holds(refused({"train"}), "needs a FILE, --resume RUN or --from RUN"));
  EXPECT_TRUE(holds(refused({"train", "run.ini", "other.ini"}), "unexpected argument 'other.ini'"));
  EXPECT_TRUE(holds(refused({"train", "run.ini", "--job", "2"}), "unknown flag '--job'"));
  EXPECT_TRUE(holds(refused({"train", "run.ini", "--resume", "x"}), "takes neither FILE, --run, --name nor --from"));
  EXPECT_TRUE(holds(refused({"train", "--resume", "nowhere"}), "'nowhere': holds no run"));
  EXPECT_TRUE(holds(refused({"sweep", "run.ini", "--jobs", "0"}), "whole number from 1 to 4096"));
  EXPECT_TRUE(
      holds(refused({"sweep", "run.ini", "--jobs", "-1"}), "--jobs = '-1': must be a whole number from 1 to 4096"));
  EXPECT_TRUE(holds(refused({"inspect"}), "usage: ropewalk inspect RUN|SWEEP"));
  EXPECT_TRUE(holds(refused({"recover", "x", "model.d_model=1"}), "takes no section.key=value"));
  EXPECT_TRUE(holds(refused({"config", "--markdown", "run.ini"}), "takes no FILE"));
}

TEST_F(CommandLine, FlagsThatWouldDoNothingAreRefused) {
  EXPECT_TRUE(
      holds(refused({"train", "--name", "n", "--resume", "x"}), "takes neither FILE, --run, --name nor --from"));
  EXPECT_TRUE(holds(refused({"train", "run.ini", "--run", "d", "--name", "n"}), "takes --run or --name, not both"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "d"));
  std::filesystem::create_directory(dir_ / "s");
  write_text(dir_ / "s/sweep.ini", kRun);
  EXPECT_EQ(run({"inspect", "s"}).code, kDone);
  EXPECT_TRUE(holds(refused({"inspect", "s", "--rows", "3"}), "'s' is a sweep: give one of the runs in it"));
  EXPECT_TRUE(holds(refused({"inspect", "s", "--step", "3"}), "--step is for the log of one run"));
  EXPECT_TRUE(holds(refused({"inspect", "s", "--layers"}), "--layers is for the log of one run"));
  EXPECT_TRUE(holds(refused({"inspect", "s", "--plot", "los"}), "--plot = 'los': must be loss, grad_norm or length"));
  EXPECT_TRUE(holds(refused({"inspect", "s", "--kind", "block"}), "--kind goes with --layers"));
  EXPECT_TRUE(holds(refused({"inspect", "r", "--layers", "--plot", "loss"}), "--plot or --layers, not both"));
  EXPECT_TRUE(holds(refused({"inspect", "r", "--plot", "loss", "--rows", "3"}), "--rows is for the tables"));
  for (const char* bad : {"x", "-1", "5..4", "..", "1...4", "3..x", "99999999999999999999"}) {
    EXPECT_TRUE(holds(refused({"inspect", "r", "--step", bad}), "must be a step, as 40, or a range")) << bad;
  }
}

TEST_F(CommandLine, ConfigurationErrorsComeAllAtOnceAndStartNothing) {
  write_text(dir_ / "bad.ini", std::string(kRun) + "stpes = 3\n[optim]\nlr = fast\n");
  const std::string error = refused({"train", "bad.ini", "model.n_layerz=2"});
  EXPECT_TRUE(holds(error, "bad.ini:15: error: unknown key 'eval.stpes'")) << error;
  EXPECT_TRUE(holds(error, "bad.ini:17: error: optim.lr = fast")) << error;
  EXPECT_TRUE(holds(error, "did you mean 'model.n_layers'?")) << error;
  EXPECT_TRUE(holds(error, "3 errors; nothing was started")) << error;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runs"));
  refused({"train", "missing.ini"});
}

TEST_F(CommandLine, TrainSendsListsAndSweepFilesToSweep) {
  EXPECT_TRUE(holds(refused({"train", "run.ini", "position.encoding=rope,alibi"}), "ropewalk sweep"));
  write_text(dir_ / "sweep.ini", "include = run.ini\n[grid]\nposition.encoding = rope, alibi\n");
  EXPECT_TRUE(holds(refused({"train", "sweep.ini"}), "run it with 'ropewalk sweep'"));
}

TEST_F(CommandLine, ConfigPrintsAFileThatLoadsAgain) {
  const Finished first = run({"config", "run.ini", "optim.lr=0.5"});
  EXPECT_EQ(first.code, kDone) << first.err;
  EXPECT_TRUE(holds(first.out, "lr = 0.5  # command line\n")) << first.out;
  EXPECT_TRUE(holds(first.out, "n_layers = 1  # run.ini:2\n")) << first.out;
  write_text(dir_ / "again.ini", first.out);
  EXPECT_EQ(run({"config", "again.ini"}).code, kDone);
  EXPECT_TRUE(run({"config", "--markdown"}).out.starts_with("# Configuration keys"));
}

TEST_F(CommandLine, ConfigPrintsASweepThatLoadsAgain) {
  write_text(dir_ / "sweep.ini",
             "include = run.ini\n[sweep]\nseeds = 1..2\n[grid]\nposition.encoding = rope, none\n[variant wide]\n"
             "model.d_model = 16\n");
  const Finished first = run({"config", "sweep.ini", "optim.lr=0.5"});
  EXPECT_EQ(first.code, kDone) << first.err;
  EXPECT_TRUE(holds(first.out, "\noptim.lr = 0.5  # command line\n")) << first.out;
  EXPECT_TRUE(holds(first.out, "\n[grid]\nposition.encoding = rope, none  # sweep.ini:5\n")) << first.out;
  EXPECT_TRUE(holds(first.out, "\n#    5  wide-s1  rope               16\n#    6  wide-s2  rope               16\n"))
      << first.out;
  write_text(dir_ / "again.ini", first.out);
  EXPECT_EQ(run({"sweep", "again.ini", "--dry-run"}).out, run({"sweep", "sweep.ini", "--dry-run", "optim.lr=0.5"}).out);
}

TEST_F(CommandLine, DescribeTellsWhatVariantsShareFromWhatTheyDoNot) {
  write_text(
      dir_ / "sweep.ini",
      "include = run.ini\n[sweep]\nseeds = 1..2\n[grid]\nposition.encoding = none, learned\noptim.lr = 1e-3, 1e-2\n");
  const Finished described = run({"describe", "sweep.ini"});
  EXPECT_EQ(described.code, kDone) << described.err;
  const std::size_t none = described.out.find("\nvariants none-lr_0.001, none-lr_0.01\n");
  const std::size_t learned = described.out.find("\nvariants learned-lr_0.001, learned-lr_0.01\n");
  ASSERT_TRUE(none < learned && learned < described.out.size()) << described.out;
  EXPECT_TRUE(described.out.starts_with("8 runs; what all have in common:\n")) << described.out;
  EXPECT_LT(described.out.find("FLOPs a token "), none) << described.out;
  EXPECT_EQ(described.out.find("FLOPs a token ", none), std::string::npos) << described.out;
  const std::string single = run({"describe", "run.ini", "position.encoding=learned"}).out;
  const std::size_t at = single.find("parameters ");
  const std::string parameters = single.substr(at, single.find('\n', at) + 1 - at);
  EXPECT_TRUE(holds(described.out.substr(learned), parameters)) << described.out;
  EXPECT_FALSE(holds(described.out.substr(0, learned), parameters)) << described.out;
}

TEST_F(CommandLine, DryRunPrintsTheRunsAndStartsNone) {
  const Finished result = run({"sweep", "run.ini", "--dry-run", "position.encoding=rope,none", "train.seed=1..2"});
  EXPECT_EQ(result.code, kDone) << result.err;
  EXPECT_EQ(result.out,
            "   #  run      position.encoding\n   1  rope-s1  rope\n   2  rope-s2  rope\n   3  none-s1  none\n"
            "   4  none-s2  none\n");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runs"));
}

TEST_F(CommandLine, TrainPrintsTheDirectoryThatOtherCommandsTake) {
  const Finished trained = run({"train", "run.ini"});
  ASSERT_EQ(trained.code, kDone) << trained.err;
  EXPECT_TRUE(trained.out.starts_with("runs/run/")) << trained.out;
  const std::string directory = trained.out.substr(0, trained.out.size() - 1);
  EXPECT_TRUE(holds(trained.err, "step 5/5"));

  const Finished inspected = run({"inspect", directory});
  EXPECT_EQ(inspected.code, kDone) << inspected.err;
  EXPECT_TRUE(holds(inspected.out, "status    finished"));
  EXPECT_TRUE(holds(inspected.out, "command   ropewalk train run.ini"));

  const Finished evaluated = run({"eval", directory, "eval.lengths=4,6"});
  EXPECT_EQ(evaluated.code, kDone) << evaluated.err;
  EXPECT_TRUE(holds(evaluated.out, "1.5x")) << evaluated.out;

  const Finished reported = run({"report", directory, "-o", "page.html"});
  EXPECT_EQ(reported.code, kDone) << reported.err;
  EXPECT_EQ(reported.out, "page.html\n");
  EXPECT_TRUE(holds(read_text(dir_ / "page.html"), "<polyline"));

  EXPECT_EQ(reported.err, "");

  EXPECT_EQ(run({"recover", directory}).code, kDone);
  const std::string in_the_way = dir_ / (directory + "/log.h5.tmp");  // where the new file would be written
  std::filesystem::create_directory(in_the_way);
  EXPECT_EQ(run({"recover", directory}).code, kError) << "the log can be read";
  EXPECT_EQ(run({"train", "--resume", directory}).code, kError);
  write_text(dir_ / (directory + "/log.h5"), "");
  const Finished without_log = run({"report", directory});
  EXPECT_EQ(without_log.code, kDone);
  EXPECT_TRUE(holds(without_log.err, "ropewalk: warning: " + directory.substr(9) + ": cannot read log '"))
      << without_log.err;
  EXPECT_EQ(run({"describe", "run.ini"}).code, kDone);
}

TEST_F(CommandLine, ProbeWritesALogAVariant) {
  const Finished probed = run({"probe", "run.ini", "--run", "p", "probe.seeds=1..2", "position.encoding=rope,none"});
  ASSERT_EQ(probed.code, kDone) << probed.err;
  EXPECT_TRUE(holds(probed.out, "rope ")) << probed.out;
  EXPECT_TRUE(std::filesystem::exists(dir_ / "p/rope/log.h5"));
  const Finished inspected = run({"inspect", "p/none"});
  EXPECT_TRUE(holds(inspected.out, "2 finished")) << inspected.out;
}

TEST_F(CommandLine, UnreadableDataAndLogsHaveACodeOfTheirOwn) {
  write_text(dir_ / "log.h5", "no HDF5 at all");
  EXPECT_EQ(run({"inspect", "log.h5"}).code, kUnreadable);
  EXPECT_EQ(run({"inspect", "missing"}).code, kUnreadable);
  EXPECT_EQ(run({"recover", "log.h5"}).code, kUnreadable);
  EXPECT_EQ(run({"verify", "log.h5"}).code, kUnreadable);
  write_text(dir_ / "text.ini", "[data]\npath = missing.txt\n[train]\ncontext_length = 8\n");
  for (const char* command : {"train", "sweep"}) {
    const Finished result = run({command, "text.ini"});
    EXPECT_EQ(result.code, kUnreadable) << result.err;
    EXPECT_TRUE(holds(result.err, "missing.txt")) << result.err;
  }
}

TEST_F(CommandLine, DivergenceHasACodeOfItsOwn) {
  const Finished result = run({"train", "run.ini", "--run", "d", "optim.lr=1e30", "optim.warmup_steps=0",
                               "optim.grad_clip=0", "train.steps=200"});
  EXPECT_EQ(result.code, kDiverged) << result.err;
  const Finished inspected = run({"inspect", "d"});
  EXPECT_TRUE(holds(inspected.out, "status    diverged")) << inspected.out;
  EXPECT_TRUE(holds(inspected.out, "not finite first at step")) << inspected.out;
}

TEST_F(CommandLine, AnInterruptedRunGoesOnWithResume) {
  Binary training(dir_.path(), {"train", "run.ini", "--run", "r", "train.steps=200000", "log.every=100"});
  while (!std::filesystem::exists(dir_ / "r/log.h5")) usleep(10'000);
  usleep(200'000);
  ::kill(training.pid(), SIGTERM);
  const Finished interrupted = training.wait();
  EXPECT_EQ(interrupted.code, 143) << interrupted.err;
  EXPECT_TRUE(holds(interrupted.err, "'ropewalk train --resume r' goes on from here")) << interrupted.err;
  const std::string summary = read_text(dir_ / "r/summary.json");
  const int64_t step = std::stoll(summary.substr(summary.find("\"step\": ") + 8));
  const Finished resumed = run({"train", "--resume", "r", "train.steps=" + std::to_string(step + 10)});
  EXPECT_EQ(resumed.code, kDone) << resumed.err;
  EXPECT_TRUE(holds(resumed.err, "from step " + std::to_string(step))) << resumed.err;
}

}  // namespace
}  // namespace ropewalk
