#include "train/read_log.h"

#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include "storage_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

template <typename T>
bool is_unwritten(T value) {
  if constexpr (std::is_same_v<T, int64_t>) return value == -1;
  return std::isnan(value);
}

/// Fails unless `tables` hold what `whole` holds but for one object, which is empty or holds what unwritten rows do.
void expect_all_but(const std::string& object, const LogTables& tables, const LogTables& whole) {
  const auto compare = [&](const std::string& group, const auto& part, const auto& full) {
    if (object == group + "/step") {
      EXPECT_TRUE(part.step.empty());
      for_each_column(part, [](const ColumnSpec&, const auto& values) { EXPECT_TRUE(values.empty()); });
      return;
    }
    EXPECT_EQ(part.step, full.step);
    for_each_column(part, [&](const ColumnSpec& spec, const auto& values) {
      const bool lost = object == group + "/" + spec.name;
      for_each_column(full, [&](const ColumnSpec& other, const auto& expected) {
        if constexpr (std::is_same_v<decltype(values), decltype(expected)>) {
          if (std::string_view(other.name) != spec.name) return;
          if (!lost) {
            EXPECT_EQ(values, expected) << group << "/" << spec.name;
            return;
          }
          EXPECT_EQ(values.size(), expected.size());
          for (const auto value : values) EXPECT_TRUE(is_unwritten(value)) << spec.name;
        }
      });
    });
  };
  compare("/train", tables.train, whole.train);
  compare("/layers", tables.layers, whole.layers);
  compare("/stem", tables.stem, whole.stem);
  compare("/residual", tables.residual, whole.residual);
  compare("/attention", tables.attention, whole.attention);
  compare("/eval", tables.eval, whole.eval);
}

/// Where a deflated chunk seems to begin (RFC 1950). What lies between chunks is spared: on a damaged tree the library
/// takes its time.
std::vector<std::size_t> deflated(const std::string& bytes) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i + 12 < bytes.size(); ++i) {
    const auto first = static_cast<unsigned char>(bytes[i]), second = static_cast<unsigned char>(bytes[i + 1]);
    if (first == 0x78 && (first * 256U + second) % 31 == 0) out.push_back(i);
  }
  return out;
}

TEST(ReadLog, ADamagedColumnIsNamedAndTheOthersCanBeRead) {
  const TemporaryDirectory dir;
  {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 500; ++step) append_step(log, step);
    log.finish(LogStatus::finished);
  }
  const LogContents whole = read_log(dir / "log.h5");
  EXPECT_TRUE(whole.damage.empty());
  const std::string bytes = read_text(dir / "log.h5");
  std::set<std::string> damaged;
  for (const std::size_t at : deflated(bytes)) {
    if (damaged.size() == 3) break;
    std::string other = bytes;
    for (std::size_t i = at + 8; i < at + 12; ++i) other[i] = static_cast<char>(~other[i]);
    write_text(dir / "other.h5", other);
    LogContents log;
    try {
      log = read_log(dir / "other.h5", LogDamage::left_out);
    } catch (const LogError&) {
      continue;  // what holds the file together, or its labels
    }
    if (log.damage.size() != 1) continue;
    const std::string& note = log.damage[0];
    const std::string lead = "'" + (dir / "other.h5") + "': '";
    ASSERT_TRUE(note.starts_with(lead + "/")) << note;
    const std::string object = note.substr(lead.size(), note.find('\'', lead.size()) - lead.size());
    damaged.insert(object);
    expect_all_but(object, log.tables, whole.tables);
    // Whoever would write the log anew must not lose the column in silence.
    const std::string refusal = message_of<LogError>([&] { read_log(dir / "other.h5"); });
    EXPECT_NE(refusal.find("'" + object + "' cannot be read"), std::string::npos) << refusal;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(damaged.size(), 3U);
}

}  // namespace
}  // namespace ropewalk
