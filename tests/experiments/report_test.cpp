#include "experiments/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/packed_numbers.h"
#include "experiments/svg_plot.h"
#include "results_fixture.h"
#include "tests/train/long_log.h"
#include "tests/train/storage_testing.h"
#include "train/hdf5_file.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// What a browser without scripts shows.
std::string without_scripts(std::string page) {
  for (std::size_t begin = page.find("<script"); begin != std::string::npos; begin = page.find("<script")) {
    page.erase(begin, page.find("</script>", begin) + 9 - begin);
  }
  return page;
}

TEST(Report, HasALineAndABandForEveryVariantWithResults) {
  std::vector<RunResult> runs;
  for (const char* variant : {"rope", "alibi", "learned"}) {
    for (int64_t seed = 1; seed <= 2; ++seed) runs.push_back(finished_run(variant, seed, {2.0, 2.1, 2.2}));
  }
  runs.push_back(ended_run("post", 1, "diverged"));
  const std::string page = without_scripts(report_html({"positions", runs, "[sweep]\nname = positions\n"}));
  EXPECT_EQ(count(page, "<polyline"), 3U);
  EXPECT_EQ(count(page, "<polygon"), 3U);
  EXPECT_EQ(count(page, "<svg"), 1U);
  EXPECT_EQ(count(page, "class=\"mark\""), 1U);
  EXPECT_EQ(count(page, "<th scope=\"row\">post-s1</th>"), 1U);
  EXPECT_NE(page.find("2 seeds are too few to rank"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(Report, IsSelfContained) {
  const std::string page = report_html({"x", {finished_run("rope", 1, {2.0, 2.1})}, ""});
  for (const char* part : {"<link", " src=", "@import", "url(", "import("}) {
    EXPECT_EQ(count(without_scripts(page), part), 0U) << part;
  }
  EXPECT_EQ(count(page, "default-src 'none'"), 1U);
  EXPECT_EQ(count(page, "connect-src 'none'"), 1U);
  EXPECT_EQ(count(page, "{{"), 0U) << "every mark of the page is filled";
  for (const char* tag : {"table", "section", "script", "div", "p", "ul"}) {
    const std::string text = tag == std::string("script") ? page : without_scripts(page);
    EXPECT_EQ(count(text, std::string("<") + tag + ">") + count(text, std::string("<") + tag + " "),
              count(text, std::string("</") + tag + ">"))
        << tag;
  }
}

TEST(Report, NothingFromARunBecomesMarkup) {
  const std::string evil = "</script><script>alert('1')</script><!--<b>&\"";
  RunResult bad = ended_run(evil, 1, "failed", evil);
  bad.log_problem = evil;
  bad.configuration = {{"data.path", evil}};
  RunResult good = finished_run(evil + "2", 1, {2.0, 2.1});
  good.protocol = evil;
  good.configuration = {{"data.path", "a"}};
  RunResult diverged = ended_run("d", 1, "diverged");
  diverged.divergence = {{3, evil, evil}};
  LogDigest log;
  log.kinds = {evil};
  log.damage = {evil};
  const ReportSubject subject{evil, {bad, good, diverged}, evil, {log, std::nullopt, std::nullopt}};
  const std::string page = report_html(subject);
  EXPECT_EQ(count(page, "alert('1')"), count(page, "\\u003cscript>alert('1')")) << "only inside the data";
  EXPECT_EQ(count(page, "<b>"), 0U);
  EXPECT_EQ(count(page, "<!--"), 0U);
  EXPECT_EQ(count(page, "<script"), 3U);
  EXPECT_EQ(count(page, "</script"), 3U);
  EXPECT_GT(count(page, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&lt;!--&lt;b&gt;&amp;&quot;"), 5U);
  // What a server sends is no markup either, but for the parts that are.
  const nlohmann::json data = nlohmann::json::parse(report_json(subject));
  EXPECT_EQ(data.at("runs").at(0).at("id"), evil + "-s1");
  for (const auto& [id, html] : data.at("html").items()) {
    EXPECT_EQ(count(html.get<std::string>(), "<script"), 0U) << id;
    EXPECT_EQ(count(page, "id=\"" + id + "\""), 1U) << id;
  }
}

TEST(Report, WorksForASingleRunAndForNoResultsAtAll) {
  const TemporaryDirectory dir;
  write_text(dir / "config.ini", "[data]\npath = x\n[train]\ncontext_length = 64\n");
  const std::vector<std::string> directories = {dir.path()};
  const std::string empty = without_scripts(report_html(read_report_subject(directories)));
  EXPECT_EQ(count(empty, "<polyline"), 0U);
  EXPECT_EQ(count(empty, "None of 1 run has results."), 1U);
  write_text(
      dir / "summary.json",
      R"({"status":"finished","final":{"step":9,"eval":{"protocol":"same_tokens","lengths":[64,128],"loss":[1,2]}}})");
  const std::string page = without_scripts(report_html(read_report_subject(directories)));
  EXPECT_EQ(count(page, "<polyline"), 1U);
  EXPECT_NE(page.find("context_length = 64"), std::string::npos);
  EXPECT_THROW(read_report_subject(std::vector<std::string>{dir / "nothing"}), std::runtime_error);
}

TEST(Report, NamesTheRunsWhoseLogCannotBeReadAndWhy) {
  const TemporaryDirectory dir;
  write_text(dir / "config.ini", "[data]\npath = x\n");
  write_text(dir / "summary.json", R"({"status":"finished","final":{"step":9}})");
  const std::vector<std::string> directories = {dir.path()};
  const auto problem = [&] { return read_report_subject(directories).runs.at(0).log_problem; };
  EXPECT_EQ(problem(), "has no log.h5");
  write_text(dir / "log.h5", "cut <short>");
  EXPECT_EQ(problem(), message_of<LogError>([&] { read_log(dir / "log.h5"); }));
  EXPECT_EQ(count(report_html(read_report_subject(directories)), html_escaped(problem())), 1U);
  std::filesystem::remove(dir / "log.h5");
  {
    const RunLock lock(dir.path());
    RunLog::create(lock, example_schema(), example_header()).finish(LogStatus::finished);
  }
  EXPECT_EQ(problem(), "");

  const TemporaryDirectory sweep;
  write_text(sweep / "sweep.ini", "[data]\nsource = task\n[sweep]\nseeds = 1..2\n");
  std::filesystem::create_directory(sweep / "base-s2");
  write_text(sweep / "base-s2/summary.json", R"({"status":"finished","final":{"step":9}})");
  const std::vector<RunResult> runs = read_report_subject(std::vector<std::string>{sweep.path()}).runs;
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].log_problem, "") << "it has not begun";
  EXPECT_EQ(runs[1].log_problem, "has no log.h5");
}

TEST(Report, ShowsWhatThereIsOfRunsThatWereKilledAreEmptyOrForeign) {
  const TemporaryDirectory dir;
  write_text(dir / "sweep.ini", "[data]\nsource = task\n[sweep]\nseeds = 1..5\n");
  for (const char* run : {"base-s1", "base-s2", "base-s3", "base-s4"}) std::filesystem::create_directory(dir / run);
  EXPECT_EQ(WEXITSTATUS(in_fork([&]() -> int {
              const RunLock lock(dir / "base-s1");
              RunLog log = RunLog::create(lock, example_schema(), example_header());
              for (int64_t step = 1; step <= 50; ++step) append_step(log, step);
              log.flush();
              _exit(7);
            })),
            7);
  {
    const RunLock lock(dir / "base-s2");
    RunLog::create(lock, example_schema(), example_header()).finish(LogStatus::finished);
  }
  Hdf5Writer(dir / "base-s3/log.h5").close();
  {
    const RunLock lock(dir / "base-s4");
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 500; ++step) append_step(log, step);
    log.finish(LogStatus::finished);
  }
  const std::string whole = read_text(dir / "base-s4/log.h5");
  write_text(dir / "base-s4/log.h5", whole.substr(0, whole.size() / 2));

  const ReportSubject subject = read_report_subject(std::vector<std::string>{dir.path()});
  ASSERT_EQ(subject.runs.size(), 5U);
  EXPECT_EQ(subject.runs[0].status, "killed");
  ASSERT_TRUE(subject.logs[0]);
  EXPECT_EQ(subject.logs[0]->train.size(), 51U) << "one a step, from step 0 on";
  ASSERT_TRUE(subject.logs[1]);
  EXPECT_EQ(subject.logs[1]->train.size(), 0U);
  EXPECT_FALSE(subject.logs[2]);
  EXPECT_TRUE(subject.runs[2].log_problem.find("is not a log of Ropewalk") != std::string::npos);
  EXPECT_FALSE(subject.logs[3]);
  EXPECT_TRUE(subject.runs[3].log_problem.find("cannot read log") != std::string::npos);
  EXPECT_FALSE(subject.logs[4]);
  EXPECT_EQ(subject.runs[4].log_problem, "") << "it waits";

  const nlohmann::json data = nlohmann::json::parse(report_json(subject));
  EXPECT_TRUE(data["runs"][0]["log"].contains("layers"));
  EXPECT_FALSE(data["runs"][1]["log"].contains("train"));
  EXPECT_TRUE(data["runs"][2]["log"].is_null());
  EXPECT_NE(report_html(subject).find("None of 5 runs has results."), std::string::npos);
}

TEST(Report, ALivePageAsksTheGivenAddressAndNoOther) {
  const std::string page = live_report_html("a <b>", "/data.json?token=\"x\"");
  EXPECT_EQ(count(page, "data-url=\"/data.json?token=&quot;x&quot;\""), 1U);
  EXPECT_EQ(count(page, "connect-src 'self'"), 1U);
  EXPECT_EQ(count(page, "<b>"), 0U);
  EXPECT_EQ(count(page, "{{"), 0U);
}

TEST(Report, RunsOfOneNameFromTwoDirectoriesAreNotTakenForSeeds) {
  const TemporaryDirectory dir;
  for (const char* run : {"a/run", "b/run"}) {
    std::filesystem::create_directories(dir / run);
    write_text(dir / (std::string(run) + "/summary.json"), R"({"status":"finished","final":{"step":9}})");
  }
  const ReportSubject subject = read_report_subject(std::vector<std::string>{dir / "a/run", dir / "b/run"});
  EXPECT_EQ(subject.runs[0].variant, dir / "a/run");
  EXPECT_EQ(subject.runs[1].variant, dir / "b/run");
}

TEST(Report, ASweepOf48RunsFitsInto2MegabytesAndALongDeepRunInto5) {
  const TemporaryDirectory dir;
  write_long_log(dir.path(), {.steps = 1500, .layers = 12, .kinds = 12, .heads = 12});
  const LogDigest log = digest_log(dir / "log.h5", digest_budget(48));
  ReportSubject subject{.title = "sweep"};
  for (int variant = 0; variant < 16; ++variant) {
    for (int64_t seed = 1; seed <= 3; ++seed) {
      const double loss = 2 + 0.1 * variant + 0.01 * static_cast<double>(seed);
      subject.runs.push_back(finished_run("variant " + std::to_string(variant), seed, {loss, loss, loss}));
      subject.logs.emplace_back(log);
    }
  }
  EXPECT_LT(report_html(subject).size(), 2'000'000U);

  const TemporaryDirectory deep;
  write_long_log(deep.path(), {.steps = 600, .layers = 48, .kinds = 12, .heads = 16});
  const LogDigest long_log = digest_log(deep / "log.h5", digest_budget(1));
  EXPECT_GT(long_log.layers[0].size(), 50U);
  EXPECT_LT(report_html({"one", {finished_run("one", 1, {2.0})}, "", {long_log}}).size(), 5'000'000U);
}

TEST(ReportData, HoldsWhatTheLogHoldsAndWhatTheComparisonSays) {
  const TemporaryDirectory dir;
  const LongLog size{.steps = 90, .spike_step = 0};
  write_long_log(dir.path(), size);
  std::vector<RunResult> runs = {finished_run("a", 1, {1.0, 2.0}), finished_run("a", 2, {1.5, NAN}),
                                 ended_run("b", 1, "diverged")};
  runs[2].divergence = {{7, "blocks.1.ffn", "value"}};
  const ReportSubject subject{"x", runs, "", {digest_log(dir / "log.h5", {}), std::nullopt, std::nullopt}};
  const nlohmann::json data = nlohmann::json::parse(report_json(subject));
  EXPECT_EQ(data["schema"], "ropewalk-report");
  EXPECT_EQ(data["tables"][0]["cells"][0][0]["n"], 2);
  EXPECT_EQ(data["tables"][0]["cells"][0][0]["mean"], 1.25);
  EXPECT_EQ(data["tables"][0]["cells"][0][0]["sd"], 0.353553);
  EXPECT_EQ(data["tables"][0]["cells"][0][1]["n"], 1);
  EXPECT_TRUE(data["tables"][0]["cells"][0][1]["low"].is_null()) << "one seed has no interval";
  EXPECT_EQ(data["tables"][0]["cells"][1][0]["n"], 0);
  EXPECT_EQ(data["runs"][2]["diverged"]["step"], 7);
  const nlohmann::json& layers = data["runs"][0]["log"]["layers"];
  EXPECT_EQ(layers["width"], 1);
  EXPECT_FALSE(layers["grad_norm"].contains("least")) << "nothing is merged";
  std::vector<uint16_t> codes((90 + 1) * 4 * 3, kLog16None);  // step 0 has no row
  for (int64_t step = 1; step <= 90; ++step) {
    for (int64_t cell = 0; cell < 12; ++cell) {
      codes[static_cast<std::size_t>(step * 12 + cell)] = log16(long_log_gradient(size, step, cell / 3, cell % 3));
    }
  }
  EXPECT_EQ(layers["grad_norm"]["greatest"], packed_codes(codes));
}

TEST(SvgPlot, GapsAndSinglePointsStayWithinThePicture) {
  LinePlot plot;
  plot.series = {
      {"one", {64}, {3}, {3}, {3}}, {"gap", {64, 96, 128}, {1, NAN, 2}, {}, {}}, {"none", {64}, {NAN}, {}, {}}};
  plot.x_ticks = {64, 96, 128};
  plot.marked_x = 64;
  const std::string svg = svg_plot(plot);
  EXPECT_EQ(count(svg, "<polyline"), 2U);
  EXPECT_EQ(count(svg, "<circle"), 3U);
  EXPECT_EQ(count(svg, "nan"), 0U);
  EXPECT_EQ(count(svg, "inf"), 0U);
  EXPECT_EQ(svg_plot({}), "");
}

TEST(SvgPlot, TheLengthAxisIsLogarithmic) {
  LinePlot plot;
  plot.series = {{"a", {64, 128, 256}, {1, 2, 3}, {}, {}}};
  const std::string svg = svg_plot(plot);
  const std::size_t at = svg.find("points=\"") + 8;
  double x[3];
  double y[3];
  ASSERT_EQ(std::sscanf(svg.c_str() + at, "%lf,%lf %lf,%lf %lf,%lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]), 6);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.11);
  EXPECT_GT(y[0], y[1]);
  EXPECT_GT(y[1], y[2]);
}

}  // namespace
}  // namespace ropewalk
