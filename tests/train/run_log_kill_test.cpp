#include <signal.h>

#include <cstring>
#include <random>

#include "storage_testing.h"
#include "train/read_log.h"
#include "train/run_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

/// Forks a process that appends steps from `first` on as fast as it can, flushing at every 7th, and reports the last
/// step flushed; kills it `microseconds` after it has reported `flushes` of them. Returns the last step that it
/// reported.
int64_t run_and_kill(const std::string& directory, int64_t first, unsigned flushes, unsigned microseconds) {
  int flushed[2];
  if (pipe(flushed) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    try {
      const RunLock lock(directory);
      RunLog log = first == 1 ? RunLog::create(lock, example_schema(), example_header())
                              : RunLog::resume(lock, first - 1, example_schema());
      int64_t step = 0;
      if (write(flushed[1], &step, sizeof step) != sizeof step) _exit(1);  // the log has begun
      for (step = first; step < first + 100000; ++step) {
        append_step(log, step);
        if (step % 7 != 0) continue;
        log.flush();
        if (write(flushed[1], &step, sizeof step) != sizeof step) _exit(1);
      }
    } catch (const std::exception&) {
    }
    _exit(1);
  }
  close(flushed[1]);
  int64_t last = 0, step = -1;
  if (read(flushed[0], &step, sizeof step) != sizeof step) throw std::runtime_error("the writer did not start");
  for (unsigned i = 0; i < flushes; ++i) {
    if (read(flushed[0], &step, sizeof step) != sizeof step) throw std::runtime_error("the writer stopped");
    last = step;
  }
  usleep(microseconds);
  kill(pid, SIGKILL);
  while (read(flushed[0], &step, sizeof step) == sizeof step) last = step;
  close(flushed[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFSIGNALED(status)) throw std::runtime_error("the writer ended by itself");
  return last;
}

void expect_equal_tables(const LogTables& a, const LogTables& b) {
  for_each_group(a, [&](const char* group, const auto& table) {
    for_each_group(b, [&](const char* other, const auto& expected) {
      if (std::strcmp(group, other) != 0) return;
      if constexpr (std::is_same_v<decltype(table), decltype(expected)>) {
        EXPECT_EQ(table.step, expected.step) << group;
        std::vector<std::vector<char>> bytes;
        for_each_column(table, [&](const ColumnSpec&, const auto& v) {
          const auto* p = reinterpret_cast<const char*>(v.data());
          bytes.emplace_back(p, p + v.size() * sizeof(v[0]));
        });
        std::size_t column = 0;
        for_each_column(expected, [&](const ColumnSpec& spec, const auto& v) {
          const auto* p = reinterpret_cast<const char*>(v.data());
          EXPECT_TRUE(bytes[column++] == std::vector<char>(p, p + v.size() * sizeof(v[0])))
              << group << "/" << spec.name;
        });
      }
    });
  });
}

TEST(RunLogKill, NoFlushedRowIsLostAndEveryRowIsRight) {
  std::mt19937 random(5);
  int64_t rows = 0;
  for (int trial = 0; trial < 25; ++trial) {
    const TemporaryDirectory dir;
    const int64_t last = run_and_kill(dir.path(), 1, random() % 40, random() % 2000);
    const LogContents killed = read_log(dir / "log.h5");
    ASSERT_EQ(killed.status[0], LogStatus::running);
    ASSERT_NO_FATAL_FAILURE(expect_log(killed.tables, last));
    const RecoveredLog recovered = recover_log(dir / "log.h5");
    ASSERT_EQ(recovered.before[0], LogStatus::running);
    ASSERT_EQ(recovered.after[0], LogStatus::interrupted);
    ASSERT_GE(recovered.last_step, last > 0 ? last : -1) << "0: it was killed before the first flush";
    const LogContents clean = read_log(dir / "log.h5");
    ASSERT_NO_FATAL_FAILURE(expect_log(clean.tables, last));
    expect_equal_tables(clean.tables, killed.tables);
    rows += last;
  }
  EXPECT_GT(rows, 1000);
}

TEST(RunLogKill, ALogReadWhileItIsWrittenIsRightAtEveryMoment) {
  const TemporaryDirectory dir;
  int flushed[2];
  ASSERT_EQ(pipe(flushed), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(flushed[0]);  // so that the end of the test ends this
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1;; ++step) {
      append_step(log, step);
      if (step % 7 != 0) continue;
      log.flush();
      if (write(flushed[1], &step, sizeof step) != sizeof step) _exit(1);
      usleep(200);
    }
  }
  close(flushed[1]);
  const struct Ending {
    pid_t pid;
    int fd;
    ~Ending() {
      close(fd);
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  } ending = {pid, flushed[0]};
  int64_t last = 0;
  for (int look = 0; look < 40; ++look) {
    ASSERT_EQ(read(flushed[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    const LogContents live = read_log(dir / "log.h5");
    ASSERT_NO_FATAL_FAILURE(expect_log(live.tables, last));
  }
}

TEST(RunLogKill, AResumedLogEqualsAnUninterruptedOne) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 6; ++trial) {
    const TemporaryDirectory dir, whole_dir;
    int64_t last = run_and_kill(dir.path(), 1, 10 + random() % 20, random() % 2000);
    if (trial % 2 == 1) recover_log(dir / "log.h5");  // resume must take both
    // The checkpoint may lie anywhere at or before the last flushed row.
    int64_t checkpoint = last - static_cast<int64_t>(random() % 20);
    checkpoint = std::max<int64_t>(checkpoint, 0);
    last = std::max(checkpoint, run_and_kill(dir.path(), checkpoint + 1, random() % 10, random() % 2000));
    checkpoint = last;
    const int64_t end = checkpoint + 500;
    const auto write_to_end = [&](RunLog log, int64_t first) {
      for (int64_t step = first; step <= end; ++step) append_step(log, step);
      log.finish(LogStatus::finished);
    };
    {
      const RunLock lock(dir.path()), whole_lock(whole_dir.path());
      RunLog resumed = RunLog::resume(lock, checkpoint, example_schema());
      EXPECT_EQ(resumed.last_step(), checkpoint == 0 ? -1 : checkpoint);
      write_to_end(std::move(resumed), checkpoint + 1);
      write_to_end(RunLog::create(whole_lock, example_schema(), example_header()), 1);
    }
    const LogContents resumed = read_log(dir / "log.h5"), whole = read_log(whole_dir / "log.h5");
    EXPECT_EQ(resumed.header, whole.header);
    EXPECT_EQ(resumed.status, whole.status);
    ASSERT_EQ(whole.tables.train.step.size(), static_cast<std::size_t>(end));
    expect_equal_tables(resumed.tables, whole.tables);
  }
}

TEST(RunLogKill, AKillWhileResumingLeavesTheOldLogOrTheNew) {
  std::mt19937 random(7);
  const TemporaryDirectory dir;
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 500; ++step) append_step(log, step);
    log.finish(LogStatus::interrupted);
  }
  for (int trial = 0; trial < 25; ++trial) {
    const pid_t pid = fork();
    if (pid == 0) {
      try {
        const RunLock lock(dir.path());
        const RunLog log = RunLog::resume(lock, 500, example_schema());
        pause();
      } catch (const std::exception&) {
      }
      _exit(1);
    }
    usleep(random() % 40000);
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const LogContents read = read_log(dir / "log.h5");
    ASSERT_EQ(read.tables.train.step.size(), 500U);
    ASSERT_NO_FATAL_FAILURE(expect_log(read.tables, 500));
  }
}

}  // namespace
}  // namespace ropewalk
