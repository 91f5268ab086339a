#include "train/bench/machine_peak.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

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

TEST(MachinePeak, EachMemoryLevelHasARate) {
  const MemoryRoof roof = measure_memory_roof(0.002);
  std::string names;
  for (const MemoryLevel& level : roof.levels) {
    names += std::string(level.name) + " ";
    EXPECT_GT(level.bytes_per_s, 0) << level.name;
    EXPECT_TRUE(std::isfinite(level.bytes_per_s)) << level.name;
    EXPECT_GT(level.capacity, 0) << level.name;
  }
  EXPECT_EQ(names, "L1 L2 L3 DRAM ");
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
