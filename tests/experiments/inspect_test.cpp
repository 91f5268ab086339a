#include "experiments/inspect.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/terminal.h"
#include "tests/train/storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void write_log(const std::string& directory, int64_t steps, LogStatus status) {
  const RunLock lock(directory);
  RunLog log = RunLog::create(lock, example_schema(), example_header());
  for (int64_t step = 1; step <= steps; ++step) append_step(log, step);
  log.finish(status);
}

/// Leaves the log of a process that was killed after 20 steps.
void leave_log(const std::string& directory) {
  const int status = in_fork([&]() -> int {
    const RunLock lock(directory);
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 20; ++step) append_step(log, step);
    log.flush();
    _exit(3);
  });
  ASSERT_EQ(WEXITSTATUS(status), 3);
}

TEST(Inspect, ShowsHeaderTrainingEvaluationAndLayers) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 50, LogStatus::finished);
  const std::string text = inspect(dir.path(), {}, {});
  EXPECT_TRUE(holds(text, "run       run-1\n")) << text;
  EXPECT_TRUE(holds(text, "schema    ropewalk-log 1\n")) << text;
  EXPECT_TRUE(holds(text, "status    finished\n")) << text;
  EXPECT_TRUE(holds(text, "steps     50 (50 rows)\n")) << text;
  EXPECT_TRUE(holds(text, "training, last 10 of 50 rows\n")) << text;
  EXPECT_TRUE(holds(text, "\n       41   41.0000")) << text;
  EXPECT_FALSE(holds(text, "\n       40   40.0000")) << text;
  EXPECT_TRUE(holds(text, "protocol same_tokens, trained at 64")) << text;
  EXPECT_TRUE(holds(text, "     step       1x     1.5x       2x\n")) << text;
  EXPECT_TRUE(holds(text, "\n       50  51.7500  51.7656  51.7812\n")) << text;
  EXPECT_TRUE(holds(text, "gradient norm by layer and module, step 48\n")) << text;
  EXPECT_TRUE(holds(text, "\n    2 4.88e+01")) << text;
  EXPECT_TRUE(holds(text, "token_embedding      4.91e+01\n")) << text;
  EXPECT_EQ(inspect(dir / "log.h5", {}, {}), text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 80U) << line;
}

TEST(Inspect, NamesTheModulesOfAnEncoderAndItsDecoder) {
  const TemporaryDirectory dir;
  LogSchema schema = example_schema();
  schema.layer_kinds = {"encoder.attention.query", "encoder.block", "cross_attention.query", "block"};
  schema.stem_kinds = {"encoder.position_embedding", "final_norm"};
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, schema, example_header());
    for (int64_t step = 1; step <= 3; ++step) append_step(log, step);
    log.finish(LogStatus::finished);
  }
  const std::string text = inspect(dir.path(), {}, {});
  const std::string values = fmt::format("{:9.2e}{:9.2e}\n", formula(3, 6, 2), formula(3, 6, 3));
  EXPECT_TRUE(holds(text, "step 3\nencoder\n          attn         \nlayer    query    block\n    0")) << text;
  EXPECT_TRUE(holds(text, "decoder\n         cross         \nlayer    query    block\n    0" + values)) << text;
  EXPECT_TRUE(holds(text, "encoder.position_embedding ")) << text;
}

TEST(Inspect, LongNamesOfModulesAreWhole) {
  const TemporaryDirectory dir;
  LogSchema schema = example_schema();
  schema.layer_kinds = {"attention.kv_latent_norm", "attention.query_up", "ffn.down", "block"};
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, schema, example_header());
    for (int64_t step = 1; step <= 3; ++step) append_step(log, step);
    log.finish(LogStatus::finished);
  }
  EXPECT_TRUE(holds(inspect(dir.path(), {}, {}),
                    "          attn                           \n"
                    "            kv                           \n"
                    "        latent     attn      ffn         \n"
                    "layer     norm query_up     down    block\n"))
      << inspect(dir.path(), {}, {});
}

TEST(Inspect, TablesOfARangeOfSteps) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 50, LogStatus::finished);
  const std::string text = inspect(dir.path(), {.steps = {10, 20}}, {});
  EXPECT_TRUE(holds(text, "training, last 10 of 11 rows\n")) << text;
  EXPECT_TRUE(holds(text, "\n       20   20.0000") && !holds(text, "\n       21   21.0000")) << text;
  EXPECT_TRUE(holds(text, "module, step 18\n")) << text;
  const auto none = [&] { inspect(dir.path(), {.steps = {60, 70}}, {}); };
  EXPECT_TRUE(holds(message_of<std::runtime_error>(none), "no layers were logged in the steps 60..70; they are from"));
}

TEST(Inspect, PlotsAndHeatMapsShowTheStepsAskedFor) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 50, LogStatus::finished);
  const std::string loss = inspect_plot(dir.path(), Curve::loss, {10, 20}, {});
  EXPECT_TRUE(holds(loss, "       20 |") && holds(loss, "       10 |")) << loss;
  const std::string length = inspect_plot(dir.path(), Curve::length, {}, {});
  EXPECT_TRUE(holds(length, "    51.75 |") && holds(length, "trained at")) << length;
  const std::string layers = inspect_layers(dir.path(), "block", {10, 20}, {});
  EXPECT_TRUE(holds(layers, "gradient norm of block by layer and step\n    0 ")) << layers;
  EXPECT_TRUE(holds(layers, " step 12 ")) << layers;
  const auto unknown = [&] { inspect_layers(dir.path(), "ffn.dwn", {}, {}); };
  EXPECT_TRUE(holds(message_of<std::runtime_error>(unknown), "no kind 'ffn.dwn' of module in this log; it has"));
}

TEST(Inspect, CsvHoldsTheNumbersThemselves) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 50, LogStatus::finished);
  const std::string train = inspect_csv(dir.path(), {7, 8});
  EXPECT_EQ(train.find("step,loss,index_loss,lr,grad_norm,param_norm,step_time,tokens_per_s,tokens,wall_time\n7,7,"),
            0U)
      << train;
  EXPECT_EQ(std::count(train.begin(), train.end(), '\n'), 3);
  EXPECT_EQ(inspect_plot_csv(dir.path(), Curve::loss, {7, 8}), "step,loss\n7,7\n8,8\n");
  const std::string length = inspect_plot_csv(dir.path(), Curve::length, {});
  EXPECT_EQ(length.find("length,loss\n64,51.75\n"), 0U) << length;
  const std::string layers = inspect_layers_csv(dir.path(), "block", {12, 12});
  EXPECT_EQ(layers.find("step,layer,kind,grad_norm,param_norm,update_ratio\n12,0,block,"), 0U) << layers;
  EXPECT_EQ(std::count(layers.begin(), layers.end(), '\n'), 1 + example_schema().n_layers);
  const auto kinds = static_cast<int64_t>(example_schema().layer_kinds.size());
  const std::string all = inspect_layers_csv(dir.path(), "", {12, 12});
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1 + example_schema().n_layers * kinds);
}

TEST(Inspect, LayersAtAStepOfChoice) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 50, LogStatus::finished);
  EXPECT_TRUE(holds(inspect(dir.path(), {.steps = {12, 12}}, {}), "module, step 12\n"));
  const std::string message = message_of<std::runtime_error>([&] { inspect(dir.path(), {.steps = {13, 13}}, {}); });
  EXPECT_TRUE(holds(message, "no layers were logged at step 13; the nearest is 12")) << message;
}

TEST(Inspect, ARunningLogIsToldFromAKilledOne) {
  const TemporaryDirectory dir;
  leave_log(dir.path());
  EXPECT_TRUE(holds(inspect(dir.path(), {}, {}), "status    killed"));
  const RunLock lock(dir.path());
  EXPECT_TRUE(holds(inspect(dir.path(), {}, {}), "status    running\n"));
}

TEST(Inspect, ALogIsTheSameFromInsideItsDirectory) {
  const TemporaryDirectory dir;
  leave_log(dir.path());
  const RunLock lock(dir.path());
  write_text(dir / "events.jsonl", "{\"kind\":\"diverged\",\"step\":1,\"module\":\"blocks.1.ffn\"}\n");
  const std::string text = inspect(dir / "log.h5", {}, {});
  EXPECT_TRUE(holds(text, "status    running\n")) << text;
  EXPECT_TRUE(holds(text, "not finite first at step 1 in blocks.1.ffn\n")) << text;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const std::string inside = inspect("log.h5", {}, {});
  const std::string here = inspect(".", {}, {});
  std::filesystem::current_path(before);
  EXPECT_EQ(inside, text);
  EXPECT_EQ(here, text);
}

TEST(Inspect, NamesWhatWasNotFiniteFirst) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 5, LogStatus::diverged);
  write_text(dir / "events.jsonl",
             "{\"kind\":\"started\",\"step\":0}\nnot json\n"
             "{\"kind\":\"diverged\",\"step\":4,\"module\":\"blocks.1.ffn\",\"where\":\"gradient\"}\n"
             "{\"kind\":\"diverged\",\"step\":5,\"module\":\"blocks.0.ffn\",\"where\":\"value\"}\n");
  EXPECT_TRUE(holds(inspect(dir.path(), {}, {}), "not finite first at step 4 in blocks.1.ffn (gradient)\n"));
  write_text(dir / "events.jsonl", "{\"kind\":7}\n{\"kind\":\"diverged\",\"step\":\"x\"}\n");
  EXPECT_FALSE(holds(inspect(dir.path(), {}, {}), "not finite first"));
}

TEST(Inspect, ALogWithoutRowsIsNoError) {
  const TemporaryDirectory dir;
  write_log(dir.path(), 0, LogStatus::interrupted);
  const std::string text = inspect(dir.path(), {}, {});
  EXPECT_TRUE(holds(text, "status    interrupted\n")) << text;
  EXPECT_TRUE(holds(text, "no training rows\n")) << text;
}

TEST(Inspect, EmptyForeignAndMissingFilesAreSaidToBeSo) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(holds(message_of<LogError>([&] { inspect(dir.path(), {}, {}); }), "neither a run's log.h5 nor a sweep"));
  write_text(dir / "log.h5", "");
  message_of<LogError>([&] { inspect(dir.path(), {}, {}); });
  write_text(dir / "log.h5", "this is no HDF5 file, whatever its name says");
  message_of<LogError>([&] { inspect(dir.path(), {}, {}); });
  message_of<LogError>([&] { inspect(dir / "missing", {}, {}); });
}

}  // namespace
}  // namespace ropewalk
