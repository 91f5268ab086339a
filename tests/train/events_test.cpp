#include "train/events.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
using nlohmann::json;

TEST(EventLog, AppendsOneObjectALineAcrossRestarts) {
  const TemporaryDirectory dir;
  {
    EventLog log(dir / "events.jsonl");
    EXPECT_TRUE(log.append("start", 0));
    EXPECT_TRUE(log.append("checkpoint", 200, {{"path", "a\nb"}, {"loss", std::nan("")}}));
  }
  write_text(dir / "torn.jsonl", read_text(dir / "events.jsonl") + R"({"kind":"cut o)");
  {
    EventLog log(dir / "torn.jsonl");
    EXPECT_TRUE(log.append("resume", 200, {{"text", "caf\xe9"}}));
  }
  std::size_t bad = 0;
  const auto events = read_events(dir / "torn.jsonl", &bad);
  EXPECT_EQ(bad, 1U);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["kind"], "start");
  EXPECT_EQ(events[1]["step"], 200);
  EXPECT_EQ(events[1]["path"], "a\nb");
  EXPECT_TRUE(events[1]["loss"].is_null());
  EXPECT_EQ(events[2]["kind"], "resume");
  EXPECT_EQ(events[2]["time"].get<std::string>().size(), std::string("2026-11-29T12:48:00Z").size());
}

TEST(EventLog, AFileThatCannotBeOpenedIsNamed) {
  const std::string path = "/nonexistent/events.jsonl";
  EXPECT_NE(message_of<std::system_error>([&] { const EventLog log(path); }).find(path), std::string::npos);
  EXPECT_NE(message_of<std::system_error>([&] { read_events(path); }).find(path), std::string::npos);
}

TEST(Summary, IsReplacedAsAWhole) {
  const TemporaryDirectory dir;
  write_summary(dir / "summary.json", {{"loss", 1.5}});
  write_summary(dir / "summary.json", {{"loss", 2.5}, {"name", "caf\xe9"}});
  const json read = json::parse(read_text(dir / "summary.json"));
  EXPECT_EQ(read["loss"], 2.5);
  EXPECT_FALSE(std::filesystem::exists(dir / "summary.json.tmp"));
  EXPECT_THROW(write_summary("/nonexistent/summary.json", json::object()), std::system_error);
}

}  // namespace
}  // namespace ropewalk
