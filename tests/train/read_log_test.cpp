#include "train/read_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include "long_log.h"
#include "storage_testing.h"
#include "train/hdf5_file.h"

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

/// What read_log_in_slabs() hands on, put together again.
struct Gathered {
  LogContents log;
  std::map<std::string, std::vector<float>> columns;
  std::size_t most_rows = 0;  ///< of `layers`, in one slab
  std::size_t slabs = 0;
};

Gathered gathered(const std::string& path, LogDamage damage = LogDamage::refused) {
  Gathered out;
  out.log = read_log_in_slabs(path, damage, [&](const LogContents& log, const LogRows& rows) {
    EXPECT_FALSE(log.tables.train.step.empty()) << "the rest is there first";
    std::vector<float>& column = out.columns[std::string(rows.group) + "/" + std::string(rows.column)];
    EXPECT_EQ(column.size(), rows.first * rows.values.size() / rows.count) << "in order";
    column.insert(column.end(), rows.values.begin(), rows.values.end());
    if (rows.group == "layers") out.most_rows = std::max(out.most_rows, rows.count);
    ++out.slabs;
  });
  return out;
}

/// Fails unless the slabs and the tables hold together what read_log() holds.
void expect_the_same(const Gathered& slabs, const LogContents& whole) {
  EXPECT_EQ(slabs.log.tables.train.loss, whole.tables.train.loss);
  EXPECT_EQ(slabs.log.tables.stem.grad_norm, whole.tables.stem.grad_norm);
  EXPECT_EQ(slabs.log.tables.eval.loss, whole.tables.eval.loss);
  EXPECT_EQ(slabs.log.tables.layers.step, whole.tables.layers.step);
  EXPECT_TRUE(slabs.log.tables.layers.grad_norm.empty());
  EXPECT_EQ(slabs.columns.size(), 7U);
  EXPECT_EQ(slabs.columns.at("layers/grad_norm"), whole.tables.layers.grad_norm);
  EXPECT_EQ(slabs.columns.at("layers/param_norm"), whole.tables.layers.param_norm);
  EXPECT_EQ(slabs.columns.at("layers/update_ratio"), whole.tables.layers.update_ratio);
  EXPECT_EQ(slabs.columns.at("residual/grad_norm"), whole.tables.residual.grad_norm);
  EXPECT_EQ(slabs.columns.at("residual/rms"), whole.tables.residual.rms);
  EXPECT_EQ(slabs.columns.at("attention/entropy"), whole.tables.attention.entropy);
  EXPECT_EQ(slabs.columns.at("attention/max_logit"), whole.tables.attention.max_logit);
}

TEST(ReadLog, InSlabsIsTheSameAsAtOnce) {
  for (const bool compress : {true, false}) {
    const TemporaryDirectory dir;
    write_long_log(dir.path(), {.steps = 1501, .layers = 24, .kinds = 12, .heads = 3, .compress = compress});
    const Gathered slabs = gathered(dir / "log.h5");
    expect_the_same(slabs, read_log(dir / "log.h5"));
    EXPECT_LT(slabs.most_rows, 1000U) << "a piece at a time";
    EXPECT_GT(slabs.slabs, 7U);
  }
}

TEST(ReadLog, InSlabsAlsoWhileTheRunGoesOnAndAfterAKill) {
  const TemporaryDirectory dir;
  const int status = in_fork([&]() -> int {
    const RunLock lock(dir.path());
    RunLog log = RunLog::create(lock, example_schema(), example_header());
    for (int64_t step = 1; step <= 100; ++step) append_step(log, step);
    log.flush();
    for (int64_t step = 101; step <= 103; ++step) append_step(log, step);
    _exit(7);  // as a kill leaves it
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const Gathered slabs = gathered(dir / "log.h5");
  expect_the_same(slabs, read_log(dir / "log.h5"));
  EXPECT_GE(slabs.log.tables.train.step.size(), 100U);
}

TEST(ReadLog, InSlabsADamagedChunkCostsOnlyTheRowsThatAreReadWithIt) {
  const TemporaryDirectory dir;
  write_long_log(dir.path(), {.steps = 2500, .layers = 24, .kinds = 12, .heads = 1});
  const LogContents whole = read_log(dir / "log.h5");
  std::string bytes = read_text(dir / "log.h5");
  const std::vector<std::size_t> chunks = deflated(bytes);
  bool found = false;
  for (std::size_t n = chunks.size() / 2; n < chunks.size() && !found; ++n) {
    std::string other = bytes;
    for (std::size_t i = chunks[n] + 8; i < chunks[n] + 12; ++i) other[i] = static_cast<char>(~other[i]);
    write_text(dir / "other.h5", other);
    Gathered slabs;
    try {
      slabs = gathered(dir / "other.h5", LogDamage::left_out);
    } catch (const LogError&) {
      continue;
    }
    if (slabs.log.damage.size() != 1 || slabs.log.damage[0].find("'/layers/grad_norm'") == std::string::npos) continue;
    found = true;
    const std::vector<float>& column = slabs.columns.at("layers/grad_norm");
    const std::vector<float>& right = whole.tables.layers.grad_norm;
    ASSERT_EQ(column.size(), right.size());
    std::size_t lost = 0;
    for (std::size_t i = 0; i < column.size(); ++i) {
      if (std::isnan(column[i])) {
        ++lost;
      } else {
        ASSERT_EQ(column[i], right[i]);
      }
    }
    EXPECT_GT(lost, 0U);
    EXPECT_LT(lost, column.size() / 2);
    EXPECT_THROW(gathered(dir / "other.h5"), LogError);
  }
  EXPECT_TRUE(found);
}

/// The log `from` as a version wrote it that knew nothing of one dataset.
void write_log_without(const std::string& dataset, const std::string& from, const std::string& to) {
  const Hdf5File file = read_hdf5(from, Hdf5Access::complete);
  ASSERT_TRUE(file.has_dataset(dataset));
  Hdf5Writer writer(to);
  for (const auto& [object, attributes] : file.attributes) {
    if (object == dataset) continue;
    if (!file.has_dataset(object)) {
      if (object != "/") writer.create_group(object);
    } else {
      const std::vector<uint64_t>& shape = file.dataset(object).shape;
      std::visit(
          [&](const auto& values) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) {
              writer.create(object, shape, values);
            }
          },
          file.dataset(object).values);
    }
    for (const auto& [name, value] : attributes) writer.set_attribute(object, name, value);
  }
  writer.close();
}

class OldLog : public ::testing::Test {
 protected:
  void SetUp() override {
    {
      const RunLock lock(whole_.path());
      RunLog log = RunLog::create(lock, example_schema(), example_header());
      for (int64_t step = 1; step <= 60; ++step) append_step(log, step);
      log.finish(LogStatus::finished);
    }
    write_log_without("/train/index_loss", whole_ / "log.h5", old_ / "log.h5");
  }

  TemporaryDirectory whole_, old_;
};

TEST_F(OldLog, LacksWhatCameLaterAndIsReadAsIfThatHadNotBeenMeasured) {
  const LogContents old = read_log(old_ / "log.h5");
  const LogContents whole = read_log(whole_ / "log.h5");
  EXPECT_TRUE(old.schema == whole.schema);
  EXPECT_EQ(old.tables.train.index_loss.size(), 60U);
  expect_all_but("/train/index_loss", old.tables, whole.tables);
  EXPECT_TRUE(read_log(old_ / "log.h5", LogDamage::left_out).damage.empty());
}

TEST_F(OldLog, LacksNothingElse) {
  for (const char* dataset : {"/train/loss", "/layers/grad_norm", "/eval/loss"}) {
    const TemporaryDirectory dir;
    write_log_without(dataset, whole_ / "log.h5", dir / "log.h5");
    EXPECT_NE(message_of<LogError>([&] { read_log(dir / "log.h5"); }).find(dataset), std::string::npos);
  }
}

TEST_F(OldLog, IsRecoveredAndGoneOnWith) {
  recover_log(old_ / "log.h5");
  expect_all_but("/train/index_loss", read_log(old_ / "log.h5").tables, read_log(whole_ / "log.h5").tables);
  {
    const RunLock lock(old_.path());
    RunLog log = RunLog::resume(lock, 60, example_schema(), 60);
    for (int64_t step = 61; step <= 70; ++step) append_step(log, step);
    log.finish(LogStatus::finished);
  }
  const TrainTable train = read_log(old_ / "log.h5").tables.train;
  ASSERT_EQ(train.index_loss.size(), 70U);
  for (std::size_t i = 0; i < 70; ++i) {
    if (i < 60) {
      EXPECT_TRUE(std::isnan(train.index_loss[i])) << i;
    } else {
      EXPECT_EQ(train.index_loss[i], formula(train.step[i], 16, 0));
    }
    EXPECT_EQ(train.loss[i], formula(train.step[i], 0, 0));
  }
}

}  // namespace
}  // namespace ropewalk
