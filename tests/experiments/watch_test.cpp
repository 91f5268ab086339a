#include "experiments/watch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/experiments/results_fixture.h"
#include "tests/train/storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_to_fit(const std::string& text, std::size_t width, std::size_t rows) {
  EXPECT_LE(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), rows) << text;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(columns(text.substr(begin, end - begin)), width) << text;
    begin = end + 1;
  }
}

/// Leaves the log of a process that went away in the middle of a run of 200 steps.
void leave_log(const std::string& directory, int64_t steps) {
  const int status = in_fork([&]() -> int {
    const RunLock lock(directory);
    LogHeader header = example_header();
    header.config = "[train]\nsteps = 200\n";
    RunLog log = RunLog::create(lock, example_schema(), header);
    for (int64_t step = 1; step <= steps; ++step) append_step(log, step);
    log.flush();
    _exit(3);
  });
  ASSERT_EQ(WEXITSTATUS(status), 3);
}

TEST(Watch, ShowsARunWithoutSteps) {
  const TemporaryDirectory dir;
  leave_log(dir.path(), 0);
  const RunLock lock(dir.path());  // as if it still went on
  const WatchFrame frame = watch_frame(dir.path(), 80, 40, {});
  EXPECT_TRUE(holds(frame.text, ": running\nno step has been logged\n")) << frame.text;
  EXPECT_FALSE(frame.over);
}

TEST(Watch, ShowsARunWhileItGoesOn) {
  const TemporaryDirectory dir;
  leave_log(dir.path(), 50);
  EXPECT_TRUE(holds(watch_frame(dir.path(), 80, 40, {}).text, ": killed\n"));
  const RunLock lock(dir.path());
  const WatchFrame frame = watch_frame(dir.path(), 80, 40, {});
  EXPECT_TRUE(holds(frame.text, "[=====                 ] step 50/200 ")) << frame.text;
  EXPECT_TRUE(holds(frame.text, " left\nloss 50.0000  lr 5.01e+01  grad norm 50.2  51 tokens/s\n")) << frame.text;
  EXPECT_TRUE(holds(frame.text, "held-out loss at step 50: 64 51.7500 96 51.7656 128 51.7812\n")) << frame.text;
  EXPECT_TRUE(holds(frame.text, "training loss, nats a token\n")) << frame.text;
  EXPECT_EQ(frame.line.find("running  step 50/200  loss 50.0000"), 0U) << frame.line;
  EXPECT_FALSE(frame.over);
  for (const auto& [width, rows] : {std::pair<std::size_t, std::size_t>{80, 40}, {80, 24}, {40, 20}, {25, 5}}) {
    expect_to_fit(watch_frame(dir.path(), width, rows, {}).text, width, rows);
  }
  EXPECT_FALSE(holds(watch_frame(dir.path(), 80, 8, {}).text, "training loss")) << "no room";
}

TEST(Watch, IsOverWhenNothingWritesTheRun) {
  const TemporaryDirectory dir;
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    append_step(log, 1);
    log.finish(LogStatus::finished);
  }
  const WatchFrame frame = watch_frame(dir.path(), 80, 40, {});
  EXPECT_TRUE(frame.over);
  EXPECT_TRUE(holds(frame.text, ": finished\n")) << frame.text;
  ::testing::internal::CaptureStdout();
  watch(dir.path(), 0.05);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), frame.line + "\n");
}

TEST(Watch, WhatIsNoRunIsNamed) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(holds(message_of<LogError>([&] { watch_frame(dir.path(), 80, 24, {}); }), "neither a run nor a sweep"));
  write_text(dir / "log.h5", "no log");
  message_of<LogError>([&] { watch_frame(dir.path(), 80, 24, {}); });
}

TEST(Watch, ARunWhoseLogHasNotBegunIsWaitedFor) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  const WatchFrame frame = watch_frame(dir.path(), 80, 24, {});
  EXPECT_EQ(frame.line, "the log has not begun");
  EXPECT_FALSE(frame.over);
}

}  // namespace
}  // namespace ropewalk
