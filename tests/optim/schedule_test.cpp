#include "optim/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/error.h"

namespace ropewalk {
namespace {

OptimConfig with(Schedule schedule, int64_t warmup) {
  return {.lr = 0.5, .warmup_steps = warmup, .schedule = schedule, .min_lr = 0.1};
}

constexpr Schedule kAll[] = {Schedule::constant, Schedule::cosine, Schedule::linear, Schedule::inverse_sqrt};

TEST(LearningRate, RisesLinearlyAndReachesTheFullRateAtTheEndOfTheWarmUp) {
  for (Schedule schedule : kAll) {
    const OptimConfig config = with(schedule, 10);
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 110), 0.05);
    EXPECT_DOUBLE_EQ(learning_rate(config, 5, 110), 0.25);
    EXPECT_EQ(learning_rate(config, 10, 110), 0.5);
    EXPECT_LE(learning_rate(config, 11, 110), 0.5);
  }
}

TEST(LearningRate, ConstantStaysAtTheFullRate) {
  EXPECT_EQ(learning_rate(with(Schedule::constant, 10), 11, 110), 0.5);
  EXPECT_EQ(learning_rate(with(Schedule::constant, 10), 100000, 110), 0.5);
}

TEST(LearningRate, LinearFallsToTheLeastRateAtTheLastStepAndStaysThere) {
  const OptimConfig config = with(Schedule::linear, 10);
  EXPECT_DOUBLE_EQ(learning_rate(config, 35, 110), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 60, 110), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 500, 110), 0.1);
}

TEST(LearningRate, CosineFallsAlongHalfAWave) {
  const OptimConfig config = with(Schedule::cosine, 10);
  EXPECT_NEAR(learning_rate(config, 35, 110), 0.1 + 0.2 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(learning_rate(config, 60, 110), 0.3, 1e-15);
  EXPECT_NEAR(learning_rate(config, 85, 110), 0.1 + 0.2 * (1 - std::sqrt(0.5)), 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(config, 110, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 500, 110), 0.1);
}

TEST(LearningRate, InverseSquareRootHalvesWhenTheStepQuadruplesAndStopsAtTheLeastRate) {
  const OptimConfig config = with(Schedule::inverse_sqrt, 10);
  EXPECT_DOUBLE_EQ(learning_rate(config, 40, 110), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, 160, 110), 0.125);
  EXPECT_EQ(learning_rate(config, 1000, 110), 0.1);
}

TEST(LearningRate, WithoutWarmUpTheFirstStepIsOneStepIntoTheSchedule) {
  EXPECT_EQ(learning_rate(with(Schedule::constant, 0), 1, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(with(Schedule::linear, 0), 1, 4), 0.4);
  EXPECT_NEAR(learning_rate(with(Schedule::cosine, 0), 1, 4), 0.1 + 0.2 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(with(Schedule::inverse_sqrt, 0), 1, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(with(Schedule::inverse_sqrt, 0), 4, 4), 0.25);
}

TEST(LearningRate, ARunNoLongerThanItsWarmUpIsFiniteThroughoutAndFallsAtOnceAfterIt) {
  for (Schedule schedule : {Schedule::cosine, Schedule::linear}) {
    EXPECT_DOUBLE_EQ(learning_rate(with(schedule, 0), 1, 0), 0.1);
    EXPECT_EQ(learning_rate(with(schedule, 10), 10, 10), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(with(schedule, 10), 11, 10), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(with(schedule, 10), 5, 5), 0.25);
  }
}

TEST(LearningRate, ANegativeLeastRateStandsForATenthOfTheFullRate) {
  for (Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::inverse_sqrt}) {
    OptimConfig config = with(schedule, 2);
    config.min_lr = -1;
    EXPECT_DOUBLE_EQ(learning_rate(config, 1000, 10), 0.05);
    config.min_lr = 0;
    EXPECT_LT(learning_rate(config, 1000, 10), 0.03);
  }
}

TEST(LearningRate, RefusesAStepBeforeTheFirst) {
  EXPECT_THROW(learning_rate(with(Schedule::constant, 0), 0, 10), Error);
}

}  // namespace
}  // namespace ropewalk
