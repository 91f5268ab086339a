#include "experiments/export_events.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "experiments/arguments.h"
#include "tests/train/storage_testing.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

constexpr int64_t kStarted = 1796042880;  // 2026-11-30T12:48:00Z

LogContents example_log(const TemporaryDirectory& dir, int64_t steps) {
  const RunLock lock(dir.path());
  LogHeader header = example_header();
  header.started = "2026-11-30T12:48:00Z";
  RunLog log = RunLog::create(lock, example_schema(), header);
  for (int64_t step = 1; step <= steps; ++step) append_step(log, step);
  log.finish(LogStatus::finished);
  return read_log(dir / "log.h5");
}

struct Point {
  int64_t step = 0;
  double wall_time = 0;
  double value = 0;
};

/// By tag, as the script reads them; nothing where there is no python3.
std::map<std::string, std::vector<Point>> points_of(const std::string& event_file, const std::string& out) {
  const std::string command =
      "python3 " ROPEWALK_SOURCE_DIR "/tests/experiments/read_events.py '" + event_file + "' > '" + out + "'";
  const int status = std::system(command.c_str());
  std::map<std::string, std::vector<Point>> points;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return points;
  EXPECT_EQ(status, 0) << read_text(out);
  std::istringstream lines(read_text(out));
  std::string step, time, tag, value;
  while (lines >> step >> time >> tag >> value) {
    points[tag].push_back({std::stoll(step), std::stod(time), std::stod(value)});
  }
  return points;
}

TEST(ExportEvents, TimesOfTheLogAreUnderstood) {
  EXPECT_EQ(unix_seconds("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(unix_seconds("2000-02-29T23:59:59Z"), 951868799);
  EXPECT_EQ(unix_seconds("2026-11-30T12:48:00Z"), kStarted);
  for (const char* bad : {"", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-30T12:48:00"}) {
    EXPECT_EQ(unix_seconds(bad), 0) << bad;
  }
}

TEST(ExportEvents, TagsSayWhatTheLogSays) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 60);
  const auto tag = [&](const char* table, const char* column, uint64_t cell) {
    return scalar_tag(log.schema, selected_views(log, table).front(), column, cell);
  };
  EXPECT_EQ(tag("train", "loss", 0), "train/loss");
  EXPECT_EQ(tag("layers", "grad_norm", 5), "layers/grad_norm/attention.query/01");
  EXPECT_EQ(tag("stem", "grad_norm", 1), "stem/grad_norm/final_norm");
  EXPECT_EQ(tag("residual", "rms", 3), "residual/rms/03");
  EXPECT_EQ(tag("attention", "entropy", 5), "attention/entropy/02/01");
  EXPECT_EQ(tag("eval", "loss", 2), "eval/loss@128");
  EXPECT_EQ(tag("eval.loss_by_position", "loss_by_position", 6), "eval/loss_by_position@96/64");
  log.schema.n_layers = 101;  // layers sort as numbers do
  EXPECT_EQ(tag("layers", "grad_norm", 5), "layers/grad_norm/attention.query/001");
}

TEST(ExportEvents, AnotherProgramReadsEveryValueAtItsStepAndTime) {
  const TemporaryDirectory dir;
  const LogContents log = example_log(dir, 60);
  const std::string path = export_events(log, table_views(log), dir / "events");
  EXPECT_TRUE(fs::path(path).filename().string().starts_with("events.out.tfevents.1796042880.host.")) << path;
  const auto points = points_of(path, dir / "out.txt");
  ASSERT_FALSE(points.empty()) << "python3 is needed";
  // train 9, layers 3 x 12, stem 2, residual 2 x 4, attention 2 x 6, eval 3 + 12.
  EXPECT_EQ(points.size(), 9U + 36 + 2 + 8 + 12 + 15);
  ASSERT_EQ(points.at("train/grad_norm").size(), 60U);
  ASSERT_EQ(points.at("layers/update_ratio/ffn.down/02").size(), 20U);
  ASSERT_EQ(points.at("eval/loss@96").size(), 6U);
  const auto expect = [&](const char* tag, int column, std::size_t index) {
    for (const Point& point : points.at(tag)) {
      EXPECT_EQ(point.value, formula(point.step, column, index)) << tag << " at " << point.step;
      EXPECT_EQ(point.wall_time, static_cast<double>(kStarted) + static_cast<double>(point.step) / 4) << tag;
    }
  };
  expect("train/grad_norm", 2, 0);
  expect("layers/grad_norm/attention.query/01", 6, 5);
  expect("layers/update_ratio/ffn.down/02", 8, 10);
  expect("stem/grad_norm/final_norm", 9, 1);
  expect("residual/rms/03", 11, 3);
  expect("attention/max_logit/02/01", 13, 5);
  expect("eval/loss@96", 14, 1);
  expect("eval/loss_by_position@96/64", 15, 6);
}

TEST(ExportEvents, WhatIsAbsentHasNoCurveAndWhatDivergedDoes) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 6);
  for (std::size_t row = 0; row < 2; ++row) log.tables.layers.grad_norm[row * 12 + 5] = std::nanf("");
  log.tables.layers.grad_norm[12 + 6] = std::nanf("");
  log.tables.train.loss[5] = std::nanf("");
  const auto points = points_of(export_events(log, table_views(log), dir / "events"), dir / "out.txt");
  ASSERT_FALSE(points.empty()) << "python3 is needed";
  EXPECT_EQ(points.count("layers/grad_norm/attention.query/01"), 0U);
  ASSERT_EQ(points.at("layers/grad_norm/ffn.down/01").size(), 2U);
  EXPECT_TRUE(std::isnan(points.at("layers/grad_norm/ffn.down/01")[1].value));
  EXPECT_TRUE(std::isnan(points.at("train/loss")[5].value));
}

TEST(ExportEvents, ALaterExportReplacesTheFirstAndAnotherRunIsRefused) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 6);
  const std::string out = dir / "events";
  const std::string first = export_events(log, selected_views(log, "train"), out);
  const auto size = fs::file_size(first);
  EXPECT_EQ(export_events(log, table_views(log), out), first);
  EXPECT_GT(fs::file_size(first), size);
  EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 1);
  log.header.run_id = "run-2";
  const std::string message = message_of<UsageError>([&] { export_events(log, table_views(log), out); });
  EXPECT_NE(message.find("holds the events of another run (events.out.tfevents.1796042880"), std::string::npos);
  log.header.host = "../../etc/\xFFname";
  EXPECT_EQ(fs::path(export_events(log, table_views(log), dir / "other")).parent_path(), dir / "other");
}

}  // namespace
}  // namespace ropewalk
