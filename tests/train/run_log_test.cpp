#include "train/run_log.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>

#include "storage_testing.h"
#include "train/hdf5_file.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(RunLog, ReadsBackWhatWasAppendedAndLeavesACompressedFile) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  {
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 5000; ++step) append_step(log, step);
    log.flush();
    const auto live_bytes = std::filesystem::file_size(dir / "log.h5");
    log.finish(LogStatus::finished);
    EXPECT_TRUE(log.take_warnings().empty());
    EXPECT_LT(std::filesystem::file_size(dir / "log.h5"), live_bytes / 2);
  }
  const LogContents log = read_log(dir / "log.h5");
  EXPECT_EQ(log.schema, example_schema());
  EXPECT_EQ(log.header, example_header());
  EXPECT_EQ(log.status, std::vector<LogStatus>{LogStatus::finished});
  EXPECT_EQ(log.tables.train.step.size(), 5000U);
  expect_log(log.tables, 5000);
  EXPECT_FALSE(std::filesystem::exists(dir / "log.h5.tmp"));
}

TEST(RunLog, ALogThatCannotBeCompressedIsCompleteAndSaysSoOnce) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  for (int64_t step = 1; step <= 20; ++step) append_step(log, step);
  std::filesystem::create_directory(dir / "log.h5.tmp");  // where the copy would be written
  log.finish(LogStatus::finished);
  const std::vector<std::string> warnings = log.take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("the log is complete but was not compressed")) << warnings[0];
  EXPECT_TRUE(log.take_warnings().empty());
  expect_log(read_log(dir / "log.h5").tables, 20);
}

TEST(RunLog, ALogThatCannotBeRewrittenIsNotOneThatCannotBeRead) {
  const TemporaryDirectory dir;
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 20; ++step) append_step(log, step);
    log.finish(LogStatus::interrupted);
  }
  std::filesystem::create_directory(dir / "log.h5.tmp");  // where the new file would be written
  EXPECT_NE(message_of<LogWriteError>([&] { recover_log(dir / "log.h5"); }).find("cannot rewrite log"),
            std::string::npos);
  const RunLock lock(dir.path());
  EXPECT_NE(message_of<LogWriteError>([&] { RunLog::resume(lock, 10, example_schema()); }).find("cannot write log"),
            std::string::npos);
  expect_log(read_log(dir / "log.h5").tables, 20);
}

TEST(RunLog, EveryDatasetHasUnitsAndLongNameAndTheFileItsAttributes) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  append_step(log, 30);
  log.finish(LogStatus::finished);
  const Hdf5File file = read_hdf5(dir / "log.h5", Hdf5Access::complete);
  EXPECT_EQ(file.children("/"),
            (std::vector<std::string>{"attention", "eval", "layers", "residual", "run", "stem", "train"}));
  EXPECT_EQ(file.children("/layers"),
            (std::vector<std::string>{"grad_norm", "kind", "layer", "param_norm", "step", "update_ratio"}));
  EXPECT_EQ(file.children("/eval"),
            (std::vector<std::string>{"length", "loss", "loss_by_position", "position", "step"}));
  for (const auto& [object, dataset] : file.datasets) {
    EXPECT_FALSE(file.attribute<std::string>(object, "units").empty()) << object;
    EXPECT_FALSE(file.attribute<std::string>(object, "long_name").empty()) << object;
  }
  EXPECT_EQ(file.dataset("/layers/grad_norm").shape, (std::vector<uint64_t>{1, 3, 4}));
  EXPECT_EQ(file.values<int64_t>("/residual/depth"), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(file.attribute<std::string>("/", "schema"), "ropewalk-log");
  EXPECT_EQ(file.attribute<int64_t>("/", "schema_version"), 1);
  EXPECT_EQ(file.attribute<std::string>("/", "config"), example_header().config);
  EXPECT_EQ(file.attribute<std::string>("/eval", "protocol"), "same_tokens");
}

TEST(RunLog, TasksLogAccuracyAndAProbeOneEntryASeed) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  LogSchema schema = example_schema();
  schema.entries = {1, 2, 3};
  schema.task = true;
  RunLog log = RunLog::create(lock, schema, example_header());
  const std::vector<float> three = {1, NAN, 3}, twelve(12, 2.0F), four(4, 5.0F);
  for (int64_t seed = 1; seed <= 3; ++seed) log.append(ResidualRow{seed, four, four});
  log.append(EvalRow{0, three, three, three, twelve});
  EXPECT_THROW(log.append(EvalRow{0, three, {}, {}, twelve}), std::invalid_argument);
  EXPECT_THROW(log.append(ResidualRow{0, three, four}), std::invalid_argument);
  log.set_status(LogStatus::failed, 1);
  EXPECT_THROW(log.set_status(LogStatus::failed, 3), std::out_of_range);
  log.finish(LogStatus::finished);
  const LogContents read = read_log(dir / "log.h5");
  EXPECT_EQ(read.schema, schema);
  EXPECT_EQ(read.status, (std::vector<LogStatus>{LogStatus::finished, LogStatus::failed, LogStatus::finished}));
  EXPECT_EQ(read.tables.residual.step, (std::vector<int64_t>{1, 2, 3}));
  ASSERT_EQ(read.tables.eval.accuracy.size(), 3U);
  EXPECT_EQ(read.tables.eval.accuracy[2], 3.0F);
  EXPECT_TRUE(std::isnan(read.tables.eval.exact_match[1]));
}

TEST(RunLog, GroupsWithoutLabelsAreLeftOut) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  LogSchema schema;
  RunLog log = RunLog::create(lock, schema, {});
  log.append(TrainRow{.step = 1, .loss = 2});
  log.finish(LogStatus::finished);
  EXPECT_EQ(read_hdf5(dir / "log.h5", Hdf5Access::complete).children("/"), (std::vector<std::string>{"run", "train"}));
  EXPECT_EQ(read_log(dir / "log.h5").schema, schema);
}

TEST(RunLog, RowsBeyondTheReservedMemoryAreFlushedNotLost) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  for (int64_t step = 1; step <= 10000; ++step) append_step(log, step);
  log.finish(LogStatus::finished);
  const LogContents read = read_log(dir / "log.h5");
  EXPECT_EQ(read.tables.train.step.size(), 10000U);
  expect_log(read.tables, 10000);
}

TEST(RunLog, RefusesToReplaceALogAndToWriteOneTwice) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  EXPECT_NE(message_of<LogWriteError>([&] { RunLog::create(lock, example_schema(), example_header()); }).find("exists"),
            std::string::npos);
  const std::string message = message_of<RunDirectoryError>([&] { const RunLock second(dir.path()); });
  EXPECT_NE(message.find("is in use by process " + std::to_string(getpid())), std::string::npos) << message;
  EXPECT_TRUE(run_is_locked(dir.path()));
}

TEST(RunLog, IsReadableByAnotherProcessWhileItIsWritten) {
  const TemporaryDirectory dir;
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 60; ++step) append_step(log, step);
    log.flush();
    append_step(log, 61);
    char byte = 0;
    if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    log.finish(LogStatus::diverged);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const LogContents live = read_log(dir / "log.h5");
  EXPECT_EQ(live.status[0], LogStatus::running);
  EXPECT_EQ(live.tables.train.step.size(), 60U);
  expect_log(live.tables, 60);
  EXPECT_TRUE(run_is_locked(dir.path()));
  EXPECT_THROW(recover_log(dir / "log.h5"), RunDirectoryError);
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(run_is_locked(dir.path()));
  const LogContents done = read_log(dir / "log.h5");
  EXPECT_EQ(done.status[0], LogStatus::diverged);
  EXPECT_EQ(done.tables.train.step.size(), 61U);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

TEST(RunLog, ALogThatIsNotFinishedIsClosedAsFailed) {
  const TemporaryDirectory dir;
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    append_step(log, 1);
  }
  const LogContents read = read_log(dir / "log.h5");
  EXPECT_EQ(read.status[0], LogStatus::failed);
  EXPECT_EQ(read.tables.train.step.size(), 1U);
}

TEST(RunLog, ResumeRefusesAnotherSchemaAndAMissingLog) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  EXPECT_THROW(RunLog::resume(lock, 1, example_schema()), LogError);
  {
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    append_step(log, 1);
    log.finish(LogStatus::interrupted);
  }
  LogSchema other = example_schema();
  other.n_heads = 4;
  EXPECT_NE(message_of<LogError>([&] { RunLog::resume(lock, 1, other); }).find("other layers, heads"),
            std::string::npos);
}

TEST(RunLog, HeadersThatAreNotUtf8AreMadeSo) {
  const TemporaryDirectory dir;
  const RunLock lock(dir.path());
  LogHeader header = example_header();
  header.command_line = "ropewalk train caf\xe9.ini";
  header.config = std::string(300000, 'x');
  RunLog log = RunLog::create(lock, example_schema(), header);
  log.finish(LogStatus::finished);
  const LogContents read = read_log(dir / "log.h5");
  EXPECT_EQ(read.header.command_line, "ropewalk train caf\xef\xbf\xbd.ini");
  EXPECT_EQ(read.header.config, header.config);
}

TEST(RunLog, AFullDiskEndsTheLogOnceAndLosesNothingThatWasFlushed) {
  int64_t most = 0;
  for (const rlim_t limit : {300'000, 700'000, 1'100'000, 1'500'000}) {
    const TemporaryDirectory dir;
    int flushed[2];
    ASSERT_EQ(pipe(flushed), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit bound = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &bound);
      int thrown = 0;
      {
        const RunLock lock(dir.path());
        std::optional<RunLog> log;
        try {
          log.emplace(RunLog::create(lock, example_schema(), example_header()));
        } catch (const LogWriteError&) {
          _exit(3);
        }
        for (int64_t step = 1; step <= 40000; ++step) {
          try {
            append_step(*log, step);
            if (step % 100 == 0) {
              log->flush();
              if (!log->failed() && write(flushed[1], &step, sizeof step) != sizeof step) _exit(1);
            }
          } catch (const LogWriteError&) {
            ++thrown;
          }
        }
        if (!log->failed()) _exit(4);
        log->finish(LogStatus::finished);
      }
      exit(thrown == 1 ? 0 : 2);  // through the exit handlers, as a program ends
    }
    close(flushed[1]);
    int64_t last = 0, step = 0;
    while (read(flushed[0], &step, sizeof step) == sizeof step) last = step;
    close(flushed[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << limit;
    if (WEXITSTATUS(status) == 3) {  // not even the empty log found room: then there is none
      EXPECT_FALSE(std::filesystem::exists(dir / "log.h5"));
      continue;
    }
    ASSERT_EQ(WEXITSTATUS(status), 0) << limit;
    const RecoveredLog recovered = recover_log(dir / "log.h5");
    EXPECT_EQ(recovered.after[0], LogStatus::interrupted);
    EXPECT_GE(std::max<int64_t>(recovered.last_step, 0), last);
    expect_log(read_log(dir / "log.h5").tables, last);
    most = std::max(most, last);
  }
  EXPECT_GT(most, 0);
}

TEST(ReadLog, SaysWhatIsWrongWithAFile) {
  const TemporaryDirectory dir;
  const auto message = [&](const std::string& path) { return message_of<LogError>([&] { read_log(path); }); };
  EXPECT_NE(message(dir / "none.h5").find("No such file"), std::string::npos);
  EXPECT_NE(message(dir.path()).find("directory"), std::string::npos);
  write_text(dir / "empty.h5", "");
  EXPECT_NE(message(dir / "empty.h5").find("is empty"), std::string::npos);
  write_text(dir / "text.h5", "step,loss\n1,2\n");
  EXPECT_NE(message(dir / "text.h5").find("not an HDF5 file"), std::string::npos);
  {
    Hdf5Writer other(dir / "other.h5");
    other.set_attribute("/", "schema", std::string("something-else"));
    other.close();
    Hdf5Writer newer(dir / "newer.h5");
    newer.set_attribute("/", "schema", std::string(kLogSchema));
    newer.set_attribute("/", "schema_version", int64_t{2});
    newer.close();
  }
  EXPECT_NE(message(dir / "other.h5").find("not a log of Ropewalk"), std::string::npos);
  EXPECT_NE(message(dir / "newer.h5").find("version 2"), std::string::npos);
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  append_step(log, 1);
  log.finish(LogStatus::finished);
  const std::string whole = read_text(dir / "log.h5");
  write_text(dir / "cut.h5", whole.substr(0, whole.size() / 2));
  EXPECT_NE(message(dir / "cut.h5").find("cut.h5"), std::string::npos);
}

}  // namespace
}  // namespace ropewalk
