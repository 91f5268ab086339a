#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropewalk {

/// `text` fit to stand in HTML or SVG, between tags and in attributes.
std::string html_escaped(std::string_view text);

/// One line of a plot and the band around it.
struct PlotSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;          ///< NaN breaks off the line
  std::vector<double> low, high;  ///< the band; empty: none
};

struct LinePlot {
  std::string title;  ///< for screen readers
  std::string x_label;
  std::string y_label;
  std::vector<PlotSeries> series;
  std::vector<double> x_ticks;
  double marked_x = 0;  ///< a dashed vertical line; 0: none
  std::string mark_label;
};

/// An inline SVG with a log2 x axis: one polyline a series (a dot for a single point), bands behind them, and a legend
/// that is in the order of the series. Colours and dashes come from the classes s0 ... s7 and d0 ... d3 of
/// experiments/report/page.css. "" without a finite point.
std::string svg_plot(const LinePlot& plot);

}  // namespace ropewalk
