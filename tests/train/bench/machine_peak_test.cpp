#include "train/bench/machine_peak.h"

#include <sched.h>

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "train/machine.h"

namespace ropewalk {
namespace {

TEST(MachinePeak, IsAPositiveRateForBothNumberFormatsAndForSeveralWorkers) {
  Workers workers(2);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double rate : {measure_fma_peak(dtype, 0.002), measure_fma_peak(dtype, 0.002, workers)}) {
      EXPECT_TRUE(std::isfinite(rate));
      EXPECT_GT(rate, 0);
    }
  }
}

TEST(MachinePeak, EachMemoryLevelHasARateAndNoneIsSlowerThanTheOneBelowIt) {
  MemoryProbe probe;
  probe.measure(0);
  const MemoryRoof first = probe.roof();
  std::string names;
  double above = std::numeric_limits<double>::infinity();
  for (const MemoryLevel& level : first.levels) {
    names += std::string(level.name) + " ";
    EXPECT_GT(level.bytes_per_s, 0) << level.name;
    EXPECT_TRUE(std::isfinite(level.bytes_per_s)) << level.name;
    EXPECT_GT(level.capacity, 0) << level.name;
    EXPECT_LE(level.bytes_per_s, above) << level.name;
    above = level.bytes_per_s;
  }
  EXPECT_EQ(names, "L1 L2 L3 DRAM ");
  probe.measure(0.001);
  for (std::size_t i = 0; i < first.levels.size(); ++i) {
    EXPECT_GE(probe.roof().levels[i].bytes_per_s, first.levels[i].bytes_per_s) << "measuring again lowers nothing";
  }
}

TEST(MachinePeak, ALevelThatWasDisturbedTakesTheRateOfTheOneBelowIt) {
  MemoryRoof roof{{{{"L1", 100, 1, 2e9}, {"L2", 1000, 1, 80e9}, {"L3", 10'000, 1, 20e9}, {"DRAM", 100'000, 1, 30e9}}}};
  roof.raise_to_levels_below();
  EXPECT_EQ(roof.levels[0].bytes_per_s, 80e9);
  EXPECT_EQ(roof.levels[1].bytes_per_s, 80e9);
  EXPECT_EQ(roof.levels[2].bytes_per_s, 30e9);
  EXPECT_EQ(roof.levels[3].bytes_per_s, 30e9);
}

TEST(MachinePeak, ThreadsBeyondTheCoresAddNothing) {
  const std::vector<int> cores = allowed_cores();
  const auto n = static_cast<int64_t>(cores.size());
  EXPECT_EQ(fma_threads(1), 1);
  EXPECT_EQ(fma_threads(n), n);
  EXPECT_EQ(fma_threads(10 * n), n);
  if (cores.front() < 0) return;  // the system does not tell
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cores.front()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(fma_threads(4), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(MachinePeak, AShareBeyondTheRoofIsNotCredible) {
  EXPECT_TRUE(credible_share(0.5));
  EXPECT_TRUE(credible_share(1.04));
  EXPECT_FALSE(credible_share(1.06));
  EXPECT_FALSE(credible_share(33.91));
  EXPECT_FALSE(credible_share(std::numeric_limits<double>::quiet_NaN()));
}

TEST(MachinePeak, AWorkingSetBelongsToTheFirstLevelThatHoldsIt) {
  const MemoryRoof roof{{{{"L1", 100}, {"L2", 1000}, {"L3", 10'000}, {"DRAM", 100'000}}}};
  EXPECT_STREQ(roof.level_of(1).name, "L1");
  EXPECT_STREQ(roof.level_of(100).name, "L1");
  EXPECT_STREQ(roof.level_of(101).name, "L2");
  EXPECT_STREQ(roof.level_of(9999).name, "L3");
  EXPECT_STREQ(roof.level_of(1e12).name, "DRAM");
}

}  // namespace
}  // namespace ropewalk
