#include "experiments/export_csv.h"

#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "experiments/arguments.h"
#include "tests/train/storage_testing.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

/// A log whose values follow formula(), of `steps` steps.
LogContents example_log(const TemporaryDirectory& dir, int64_t steps) {
  const RunLock lock(dir.path());
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  for (int64_t step = 1; step <= steps; ++step) append_step(log, step);
  log.finish(LogStatus::finished);
  return read_log(dir / "log.h5");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string csv_of(const LogContents& log, const std::string& table) {
  std::string out;
  write_csv(log.schema, selected_views(log, table).front(), [&](std::string_view piece) { out += piece; });
  return out;
}

std::string number(float value) {
  return fmt::format("{}", value);
}

TEST(ExportCsv, TablesAreThoseOfTheLogUnderItsNames) {
  const TemporaryDirectory dir;
  const LogContents log = example_log(dir, 60);
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"train", "step,loss,index_loss,lr,grad_norm,param_norm,step_time,tokens_per_s,tokens,wall_time"},
      {"layers", "step,layer,kind,grad_norm,param_norm,update_ratio"},
      {"stem", "step,kind,grad_norm"},
      {"residual", "step,depth,grad_norm,rms"},
      {"attention", "step,layer,head,entropy,max_logit"},
      {"eval", "step,length,loss"},
      {"eval.loss_by_position", "step,length,position,loss_by_position"}};
  const std::vector<TableView> views = table_views(log);
  ASSERT_EQ(views.size(), headers.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(views[i].name, headers[i].first);
    EXPECT_EQ(lines_of(csv_of(log, views[i].name)).at(0), headers[i].second);
  }
}

TEST(ExportCsv, EveryStepAndPlaceHasALine) {
  const TemporaryDirectory dir;
  const LogContents log = example_log(dir, 60);
  const std::vector<std::string> train = lines_of(csv_of(log, "train"));
  ASSERT_EQ(train.size(), 61U);
  EXPECT_EQ(train[7], "7,7,9,7.125,7.25,7.375,7.5,7.625,28672,1.75");
  const std::vector<std::string> layers = lines_of(csv_of(log, "layers"));
  ASSERT_EQ(layers.size(), 1U + 20 * 3 * 4);
  std::size_t line = 1;
  for (int64_t step = 3; step <= 60; step += 3) {
    for (std::size_t cell = 0; cell < 12; ++cell, ++line) {
      const std::string expected =
          fmt::format("{},{},{},{},{},{}", step, cell / 4, example_schema().layer_kinds[cell % 4],
                      number(formula(step, 6, cell)), number(formula(step, 7, cell)), number(formula(step, 8, cell)));
      ASSERT_EQ(layers[line], expected);
    }
  }
  const std::vector<std::string> positions = lines_of(csv_of(log, "eval.loss_by_position"));
  ASSERT_EQ(positions.size(), 1U + 6 * 3 * 4);
  EXPECT_EQ(positions[1 + 12 + 4 + 2], "20,96,64," + number(formula(20, 15, 6)));
}

TEST(ExportCsv, NumbersReadBackAsTheSameValues) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 6);
  const float infinity = std::numeric_limits<float>::infinity();
  log.tables.train.loss = {0.1F, 1e-30F, std::nanf(""), -std::nanf(""), infinity, -infinity};
  log.tables.train.wall_time = {1.0 / 3, 1e300, 0, 1, 2, 3};
  log.tables.train.tokens[5] = int64_t{1} << 60;
  const std::vector<std::string> lines = lines_of(csv_of(log, "train"));
  const std::vector<std::string> beginnings = {"1,0.1,", "2,1e-30,", "3,nan,", "4,nan,", "5,inf,", "6,-inf,"};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(lines[i + 1].starts_with(beginnings[i])) << lines[i + 1];
  EXPECT_TRUE(lines[1].ends_with(",0.3333333333333333")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(",1e+300")) << lines[2];
  EXPECT_TRUE(lines[6].ends_with(",1152921504606846976,3")) << lines[6];
}

TEST(ExportCsv, ALabelStaysOneField) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 3);
  log.schema.stem_kinds = {"a,b", "say \"c\"\n"};
  EXPECT_EQ(csv_of(log, "stem"), "step,kind,grad_norm\n3,\"a,b\"," + number(formula(3, 9, 0)) +
                                     "\n3,\"say \"\"c\"\"\n\"," + number(formula(3, 9, 1)) + "\n");
}

TEST(ExportCsv, WhatALogLeavesOutHasNoTableAndWhatIsYetToComeAnEmptyOne) {
  const TemporaryDirectory dir;
  LogContents log = example_log(dir, 2);
  EXPECT_EQ(csv_of(log, "layers"), "step,layer,kind,grad_norm,param_norm,update_ratio\n");
  log.schema.n_heads = 0;
  log.schema.task = true;
  EXPECT_EQ(csv_of(log, "eval"), "step,length,loss,accuracy,exact_match\n");
  EXPECT_EQ(message_of<UsageError>([&] { csv_of(log, "attention"); }),
            "--only: 'attention' is no table of " + log.path +
                "; it has train, layers, stem, residual, eval, eval.loss_by_position");
}

TEST(ExportCsv, FilesAppearWholeAndReplaceThoseOfTheirNames) {
  const TemporaryDirectory dir;
  const LogContents log = example_log(dir, 60);
  const std::string out = dir / "a/b";
  std::filesystem::create_directories(out);
  write_text(out + "/train.csv", "something longer than before");
  const std::vector<std::string> paths = export_csv(log, selected_views(log, "train, eval,train"), out);
  EXPECT_EQ(paths, (std::vector<std::string>{out + "/train.csv", out + "/eval.csv"}));
  EXPECT_EQ(read_text(paths[0]), csv_of(log, "train"));
  EXPECT_EQ(read_text(paths[1]), csv_of(log, "eval"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 2);
  EXPECT_THROW(export_csv(log, table_views(log), dir / "log.h5"), std::system_error);
}

TEST(ExportCsv, ALongTableComesInPieces) {
  const TemporaryDirectory dir;
  const LogContents log = example_log(dir, 6000);
  std::size_t pieces = 0, longest = 0, bytes = 0;
  write_csv(log.schema, selected_views(log, "layers").front(), [&](std::string_view piece) {
    ++pieces;
    longest = std::max(longest, piece.size());
    bytes += piece.size();
  });
  EXPECT_GT(pieces, 2U);
  EXPECT_LT(longest, bytes / 2);
  EXPECT_EQ(bytes, csv_of(log, "layers").size());
}

}  // namespace
}  // namespace ropewalk
