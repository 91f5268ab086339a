#include "experiments/text_heat_map.h"

#include <gtest/gtest.h>

#include <limits>

namespace ropewalk {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TextHeatMap, ShadesByTheLogarithm) {
  const TextHeatMap map{.title = "t", .rows = {"0", "1"}, .steps = {1, 2, 3}, .values = {1, 1e4F, 10, 1e3F, 100, 100}};
  EXPECT_EQ(text_heat_map(map, 9, {}),
            "t\n"
            "    0 .-+\n"
            "    1 @#+\n"
            " step 1 3\n"
            "1 .:-=+*#%@ 1e+04 (log)\n");
}

TEST(TextHeatMap, ACellKeepsTheGreatestOfWhatItMerges) {
  TextHeatMap map{.rows = {"0"}};
  for (int step = 0; step < 1000; ++step) {
    map.steps.push_back(step);
    map.values.push_back(step == 777 ? 1000.0F : 1.0F);
  }
  const std::string text = text_heat_map(map, 80, {});
  EXPECT_TRUE(holds(text, "@")) << text;
  EXPECT_TRUE(holds(text, "1 .:-=+*#%@ 1e+03 (log); a cell is the greatest of 14 steps\n")) << text;
}

TEST(TextHeatMap, MarksWhatIsNotFiniteAndLeavesOutWhatIsAbsent) {
  const TextHeatMap map{.rows = {"0", "1", "2"},
                        .steps = {1, 2},
                        .values = {1, kNan, 2, std::numeric_limits<float>::infinity(), kNan, 2}};
  const std::string text = text_heat_map(map, 8, {});
  EXPECT_TRUE(holds(text, "    0 .X\n    1   \n    2 @@\n")) << text;
  EXPECT_TRUE(holds(text, "; X: not finite\n")) << text;
}

TEST(TextHeatMap, FewStepsAreDrawnWider) {
  const TextHeatMap map{.rows = {"0"}, .steps = {1, 2}, .values = {1, 10}};
  EXPECT_TRUE(holds(text_heat_map(map, 80, {}), "    0 ....@@@@\n")) << text_heat_map(map, 80, {});
}

TEST(TextHeatMap, ColoursStandForShades) {
  const TextHeatMap map{.rows = {"0"}, .steps = {1, 2}, .values = {1, 10}};
  const std::string text = text_heat_map(map, 8, {.colour = true});
  EXPECT_TRUE(holds(text, "\x1b[48;5;53m \x1b[0m\x1b[48;5;227m \x1b[0m")) << text;
}

}  // namespace
}  // namespace ropewalk
