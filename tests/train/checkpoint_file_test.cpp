#include "train/checkpoint_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <cstring>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

void write_step(const std::string& directory, int64_t step, int64_t keep, std::size_t size = 4) {
  const std::vector<float> data(size, static_cast<float>(step));
  write_checkpoint(directory, step, {{"w", "F32", {static_cast<int64_t>(size)}, data.data()}}, {{"tokens", "5"}}, keep);
}

TEST(CheckpointFile, TheNewestIsFoundAndOlderOnesArePruned) {
  const TemporaryDirectory dir;
  const std::string checkpoints = dir / "checkpoints";
  EXPECT_FALSE(latest_checkpoint(checkpoints).checkpoint);
  for (const int64_t step : {0, 200, 400, 1000}) write_step(checkpoints, step, 2);
  const LatestCheckpoint latest = latest_checkpoint(checkpoints);
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_TRUE(latest.warnings.empty());
  EXPECT_EQ(latest.checkpoint->step, 1000);
  EXPECT_EQ(latest.checkpoint->file.metadata().at("tokens"), "5");
  float first = 0;
  std::memcpy(&first, latest.checkpoint->file.tensor("w").data.data(), sizeof first);
  EXPECT_EQ(first, 1000.0F);
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(checkpoints, 200)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(checkpoints, 400)));
}

TEST(CheckpointFile, DamagedOnesArePassedOverWithAWarning) {
  const TemporaryDirectory dir;
  for (const int64_t step : {10, 20, 30}) write_step(dir.path(), step, 5);
  const std::string whole = read_text(checkpoint_path(dir.path(), 30));
  write_text(checkpoint_path(dir.path(), 30), whole.substr(0, whole.size() - 3));
  std::string flipped = read_text(checkpoint_path(dir.path(), 20));
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_text(checkpoint_path(dir.path(), 20), flipped);
  write_text(dir / "step-junk.safetensors", "x");
  write_text(dir / "step-000000000040.safetensors.tmp", "x");
  const LatestCheckpoint latest = latest_checkpoint(dir.path());
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, 10);
  ASSERT_EQ(latest.warnings.size(), 2U);
  EXPECT_NE(latest.warnings[0].find("truncated"), std::string::npos) << latest.warnings[0];
  EXPECT_NE(latest.warnings[1].find("checksum"), std::string::npos) << latest.warnings[1];
}

TEST(CheckpointFile, OtherTensorFilesAreNoCheckpoints) {
  const TemporaryDirectory dir;
  const float x = 1;
  write_safetensors(dir / "x.safetensors", {{"x", "F32", {1}, &x}}, {{"step", "1"}});
  EXPECT_NE(message_of<CheckpointError>([&] { read_checkpoint(dir / "x.safetensors"); }).find("not a checkpoint"),
            std::string::npos);
  write_safetensors(dir / "y.safetensors", {},
                    {{"step", "-4"}, {"format", "ropewalk-checkpoint"}, {"format_version", "1"}});
  EXPECT_NE(message_of<CheckpointError>([&] { read_checkpoint(dir / "y.safetensors"); }).find("no valid step"),
            std::string::npos);
}

TEST(CheckpointFile, AFullDiskLeavesTheOlderOnesAndNoPartialFile) {
  const TemporaryDirectory dir;
  write_step(dir.path(), 1, 1);
  const int status = in_fork([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit bound = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &bound);
    try {
      write_step(dir.path(), 2, 1, 100000);
    } catch (const CheckpointError& error) {
      return std::string(error.what()).find("step-000000000002") != std::string::npos ? 0 : 2;
    }
    return 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(latest_checkpoint(dir.path()).checkpoint->step, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(CheckpointFile, AKillWhileWritingLeavesAWholeOne) {
  const TemporaryDirectory dir;
  write_step(dir.path(), 1, 2);
  for (int trial = 0; trial < 10; ++trial) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (int64_t step = 2;; ++step) write_step(dir.path(), step, 2, 200000);
    }
    usleep(static_cast<useconds_t>(3000 + 2500 * trial));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const LatestCheckpoint latest = latest_checkpoint(dir.path());
    ASSERT_TRUE(latest.checkpoint);
    EXPECT_TRUE(latest.warnings.empty());
  }
}

}  // namespace
}  // namespace ropewalk
