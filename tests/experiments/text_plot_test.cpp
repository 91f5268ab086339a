#include "experiments/text_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ropewalk {
namespace {

constexpr TextStyle kAscii = {};
constexpr TextStyle kUnicode = {.unicode = true};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TextPlot, DrawsALineFromCornerToCorner) {
  const TextPlot plot{.title = "t", .x_label = "step", .y_label = "loss", .lines = {{"one", {0, 10}, {1, 3}}}};
  EXPECT_EQ(text_plot(plot, 16, 5, kAscii),
            "t\n"
            "     loss\n"
            "        3 |    *\n"
            "          |   *\n"
            "        2 |  *\n"
            "          | *\n"
            "        1 |*\n"
            "           0  10\n"
            "           step\n");
}

TEST(TextPlot, ABrailleCellHoldsTwoByFourDots) {
  // 2 columns and 1 row are 4 by 4 dots: the diagonal.
  const TextPlot plot{.lines = {{"one", {0, 1, 2, 3}, {0, 1, 2, 3}}}};
  EXPECT_TRUE(holds(text_plot(plot, 13, 1, kUnicode), "│⡠⠊\n")) << text_plot(plot, 13, 1, kUnicode);
}

TEST(TextPlot, ValuesThatAreNotFiniteBreakTheLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const TextPlot plot{.lines = {{"one", {0, 1, 2, 3, 4}, {1, 1, nan, 1, 1}}}};
  EXPECT_TRUE(holds(text_plot(plot, 16, 1, kAscii), "|** **\n")) << text_plot(plot, 16, 1, kAscii);
  TextPlot log = plot;
  log.log10_y = true;
  log.lines[0].y = {10, 10, 0, 10, -1};
  EXPECT_TRUE(holds(text_plot(log, 16, 1, kAscii), "|**  *\n")) << text_plot(log, 16, 1, kAscii);
}

TEST(TextPlot, ALogarithmicAxisSpreadsFactorsEvenly) {
  const TextPlot plot{.lines = {{"one", {1, 2, 3}, {1, 10, 100}}}, .log10_y = true};
  const std::string text = text_plot(plot, 14, 3, kAscii);
  EXPECT_TRUE(holds(text, "      100 |  *\n       10 | *\n        1 |*\n")) << text;
  const TextPlot lengths{.lines = {{"one", {64, 128, 512}, {1, 1, 1}}}, .log2_x = true};
  const std::string axis = text_plot(lengths, 26, 1, kAscii);
  EXPECT_TRUE(holds(axis, "\n           64  128     512\n")) << axis;
}

TEST(TextPlot, LinesAreToldApartByLettersWhereThereAreNoColours) {
  const TextPlot plot{.lines = {{"first", {0, 1}, {0, 0}}, {"second", {0, 1}, {1, 1}}}};
  for (const TextStyle& style : {kAscii, kUnicode}) {
    const std::string text = text_plot(plot, 20, 2, style);
    EXPECT_TRUE(holds(text, "bbbbbbbbb\n")) << text;
    EXPECT_TRUE(holds(text, "aaaaaaaaa\n")) << text;
    EXPECT_TRUE(holds(text, "a  first\n") && holds(text, "b  second\n")) << text;
  }
  const std::string coloured = text_plot(plot, 20, 2, {.colour = true, .unicode = true});
  EXPECT_TRUE(holds(coloured, "━")) << coloured;
  EXPECT_FALSE(holds(coloured, "aaaa")) << coloured;
}

TEST(TextPlot, MarksAPlaceBehindTheLines) {
  const TextPlot plot{.lines = {{"one", {1, 2, 4}, {0, 0, 1}}}, .log2_x = true, .marked_x = 2, .mark_label = "trained"};
  const std::string text = text_plot(plot, 16, 2, kAscii);
  EXPECT_TRUE(holds(text, " |  : *\n") || holds(text, "|  :**\n")) << text;
  EXPECT_TRUE(holds(text, ":  trained\n")) << text;
}

TEST(TextPlot, NothingToDrawIsSaid) {
  EXPECT_TRUE(holds(text_plot({.title = "t", .lines = {{"one", {}, {}}}}, 80, 16, kAscii), "nothing to draw"));
  const TextPlot nan{.lines = {{"one", {1}, {std::nan("")}}}};
  EXPECT_TRUE(holds(text_plot(nan, 80, 16, kAscii), "nothing to draw: no finite value"));
}

TEST(TextPlot, KeepsItsWidth) {
  TextPlot plot{.lines = {{"one", {}, {}}}};
  for (int i = 0; i < 1000; ++i) {
    plot.lines[0].x.push_back(1000000 + i);
    plot.lines[0].y.push_back(std::sin(i / 50.0) * 1e-7);
  }
  for (const TextStyle& style : {kAscii, kUnicode}) {
    const std::string text = text_plot(plot, 80, 16, style);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(columns(text.substr(begin, end - begin)), 80U);
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace ropewalk
