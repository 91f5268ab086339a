#include "framework/op_clock.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/error.h"

namespace ropewalk {
namespace {

using Pass = OpClock::Pass;

TEST(OpClockTest, AddsLapsOfOneNameByPass) {
  OpClock clock;
  const std::string same = "linear";  // the text of another literal, at another address
  clock.start();
  clock.lap("linear", Pass::forward);
  clock.lap(same.c_str(), Pass::forward);
  clock.lap("linear", Pass::backward);
  clock.lap("optimizer", Pass::step);
  ASSERT_EQ(clock.rows().size(), 2U);
  EXPECT_EQ(clock.rows()[0].laps, 2);
  EXPECT_EQ(clock.rows()[1].laps, 1);
  EXPECT_EQ(clock.rows()[1].of(Pass::forward), 0);
  EXPECT_DOUBLE_EQ(clock.rows()[0].total(), clock.rows()[0].of(Pass::forward) + clock.rows()[0].of(Pass::backward));
  clock.clear();
  EXPECT_TRUE(clock.rows().empty());
  clock.lap("add", Pass::forward);
  EXPECT_EQ(clock.rows()[0].laps, 1);
}

TEST(OpClockTest, RefusesMoreOpsThanItHasRoomFor) {
  OpClock clock;
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back("op" + std::to_string(i));
  for (int i = 0; i < 64; ++i) clock.lap(names[static_cast<std::size_t>(i)].c_str(), Pass::forward);
  EXPECT_NO_THROW(clock.lap("op0", Pass::backward));
  EXPECT_THROW(clock.lap(names.back().c_str(), Pass::forward), Error);
}

}  // namespace
}  // namespace ropewalk
