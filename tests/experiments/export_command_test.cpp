#include "experiments/export_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/exit_code.h"
#include "run_binary.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

constexpr const char* kModel =
    "[model]\nn_layers = 1\nd_model = 16\nn_heads = 2\n[data]\npath = text.txt\n"
    "[train]\ncontext_length = 16\nbatch_size = 4\nsteps = 20\n[optim]\nwarmup_steps = 2\n"
    "[eval]\nlengths = 16, 24\ntokens = 64\n";

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ExportCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    std::string text;
    while (text.size() < 4000) text += "in the beginning was the word.\n";
    write_text(file("text.txt"), text);
    write_text(file("model.ini"), kModel);
    ASSERT_EQ(run({"train", "model.ini", "--run", "run"}).code, kDone);
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string file(const std::string& name) { return *directory_ / name; }
  static Finished run(std::vector<std::string> words) { return run_binary(directory_->path(), std::move(words)); }
  static Finished exported(std::vector<std::string> words) {
    words.insert(words.begin(), "export");
    return run(std::move(words));
  }
  static std::string refused(std::vector<std::string> words, int code = kUsage) {
    const Finished result = exported(std::move(words));
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }

 private:
  static std::unique_ptr<TemporaryDirectory> directory_;
};

std::unique_ptr<TemporaryDirectory> ExportCommand::directory_;

TEST_F(ExportCommand, PrintsThePathsOfWhatItWrote) {
  const Finished all = exported({"run", "--csv", "tables", "--tensorboard", "events"});
  ASSERT_EQ(all.code, kDone) << all.err;
  EXPECT_TRUE(
      all.out.starts_with("tables/train.csv\ntables/layers.csv\ntables/stem.csv\ntables/residual.csv\n"
                          "tables/attention.csv\ntables/eval.csv\ntables/eval.loss_by_position.csv\n"
                          "events/events.out.tfevents."))
      << all.out;
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 8);
  EXPECT_TRUE(read_text(file("tables/train.csv")).starts_with("step,loss,index_loss,lr,"));
  const Finished some = exported({"run/log.h5", "--csv", "some", "--only", "eval,stem"});
  EXPECT_EQ(some.out, "some/eval.csv\nsome/stem.csv\n");
}

TEST_F(ExportCommand, ATableGoesToStandardOutput) {
  const Finished train = exported({"run", "--csv", "-"});
  EXPECT_EQ(std::count(train.out.begin(), train.out.end(), '\n'), 21);
  EXPECT_TRUE(train.out.starts_with("step,loss,index_loss,lr,grad_norm,")) << train.out;
  const Finished eval = exported({"run", "--csv", "-", "--only", "eval"});
  EXPECT_TRUE(eval.out.starts_with("step,length,loss\n20,16,")) << eval.out;
}

TEST_F(ExportCommand, ARunningAndAKilledLogAreExportedAsFarAsTheyWereFlushed) {
  Binary training(file("."), {"train", "model.ini", "--run", "live", "train.steps=1000000", "eval.every=0"});
  for (int i = 0; i < 600 && !fs::exists(file("live/checkpoints/step-000000000200.safetensors")); ++i) usleep(100'000);
  const Finished live = exported({"live", "--csv", "-"});
  EXPECT_EQ(live.code, kDone) << live.err;
  const auto rows = std::count(live.out.begin(), live.out.end(), '\n') - 1;
  EXPECT_GE(rows, 200);
  ::kill(training.pid(), SIGKILL);
  training.wait();
  const Finished killed = exported({"live", "--csv", "-"});
  EXPECT_EQ(killed.code, kDone) << killed.err;
  EXPECT_TRUE(killed.out.starts_with(live.out.substr(0, live.out.rfind('\n', live.out.size() - 2) + 1)));
  EXPECT_EQ(exported({"live", "--tensorboard", "live-events"}).code, kDone);
}

TEST_F(ExportCommand, WeightsGoOutAndBeginARun) {
  const Finished own = exported({"run", "--safetensors", "w.safetensors"});
  EXPECT_EQ(own.out, "w.safetensors\n") << own.err;
  EXPECT_TRUE(holds(own.err, "token ids are the bytes of the text")) << own.err;
  const Finished next = run({"train", "model.ini", "--from", "w.safetensors", "train.steps=0", "--run", "next"});
  ASSERT_EQ(next.code, kDone) << next.err;
  const LogContents first = read_log(file("run/log.h5")), second = read_log(file("next/log.h5"));
  EXPECT_EQ(first.tables.eval.loss, second.tables.eval.loss);
  EXPECT_TRUE(holds(run({"train", "--from", "w.safetensors"}).err, "give a FILE besides"));
  EXPECT_TRUE(holds(run({"train", "model.ini", "model.n_layers=2", "--from", "w.safetensors"}).err,
                    "model.n_layers: 2 against 1"));
}

TEST_F(ExportCommand, AnArchitectureWithoutTheseNamesIsRefusedByItsKeys) {
  const std::string message = refused({"run", "--safetensors", "d", "--names", "gpt2"});
  EXPECT_EQ(message,
            "run: error: the model is not of GPT-2's architecture: position.encoding = rope (GPT-2: learned); --names "
            "ropewalk exports it as it is\n1 error; nothing was started\n");
  EXPECT_FALSE(fs::exists(file("d")));
}

TEST_F(ExportCommand, WhatMeansNothingIsRefused) {
  EXPECT_TRUE(holds(refused({"run"}), "needs what to write: --csv DIR, --tensorboard DIR or --safetensors FILE"));
  EXPECT_TRUE(holds(refused({"run", "--csv", "-", "--tensorboard", "x"}), "give it alone"));
  EXPECT_TRUE(holds(refused({"run", "--csv", "-", "--only", "train,eval"}), "prints one table"));
  EXPECT_TRUE(
      holds(refused({"run", "--csv", "x", "--only", "layer"}), "'layer' is no table of run/log.h5; it has train"));
  EXPECT_TRUE(holds(refused({"run", "--safetensors", "x", "--only", "train"}), "--only chooses tables"));
  EXPECT_TRUE(holds(refused({"run", "--csv", "x", "--names", "gpt2"}), "--names is of weights"));
  EXPECT_TRUE(holds(refused({"run", "--safetensors", "x", "--names", "bert"}), "must be one of ropewalk, gpt2, llama"));
  EXPECT_TRUE(holds(refused({"run", "--csv", "x", "position.rope_theta=5"}), "changes no log"));
  EXPECT_TRUE(holds(refused({"nowhere", "--csv", "x"}, kUnreadable), "nowhere"));
  EXPECT_TRUE(holds(refused({"nowhere", "--safetensors", "x"}), "nowhere: error: no config.ini"));
  EXPECT_TRUE(holds(refused({"run", "--csv", "text.txt"}, kError), "text.txt"));
  EXPECT_FALSE(fs::exists(file("x")));
}

TEST_F(ExportCommand, ForeignEmptyAndDamagedLogsGetOneMessage) {
  write_text(file("foreign.h5"), "no log");
  EXPECT_TRUE(holds(refused({"foreign.h5", "--csv", "x"}, kUnreadable), "foreign.h5"));
  write_text(file("empty.h5"), "");
  EXPECT_TRUE(holds(refused({"empty.h5", "--tensorboard", "x"}, kUnreadable), "empty.h5"));
  const std::string whole = read_text(file("run/log.h5"));
  write_text(file("cut.h5"), whole.substr(0, whole.size() / 3));
  EXPECT_TRUE(holds(refused({"cut.h5", "--csv", "x"}, kUnreadable), "cut.h5"));
}

}  // namespace
}  // namespace ropewalk
