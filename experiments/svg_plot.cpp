#include "experiments/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ropewalk {
namespace {

constexpr std::size_t kColours = 8;
constexpr double kWidth = 760;
constexpr double kLeft = 62;
constexpr double kRight = 190;  // the legend's
constexpr double kTop = 16;
constexpr double kPlotHeight = 330;
constexpr double kBottom = 52;
constexpr double kLegendLine = 19;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

/// Steps of 1, 2 or 5 times a power of ten, about five of them.
std::vector<double> round_ticks(const Range& range) {
  const double raw = (range.high - range.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double factor = raw / power;
  const double step = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  std::vector<double> out;
  for (double tick = std::ceil(range.low / step) * step; tick <= range.high + step * 1e-9; tick += step) {
    out.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return out;
}

class Axes {
 public:
  Axes(Range x, Range y) : x_(x), y_(y) {
    if (x_.low == x_.high) {
      x_.low /= 2;
      x_.high *= 2;
    }
    const double room = y_.low == y_.high ? std::max(std::abs(y_.low) * 0.1, 0.1) : (y_.high - y_.low) * 0.05;
    y_.low -= room;
    y_.high += room;
  }

  double x(double value) const {
    const double share = (std::log2(value) - std::log2(x_.low)) / (std::log2(x_.high) - std::log2(x_.low));
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(double value) const { return kTop + kPlotHeight * (y_.high - value) / (y_.high - y_.low); }
  const Range& y_range() const { return y_; }
  static double right() { return kWidth - kRight; }
  static double bottom() { return kTop + kPlotHeight; }

 private:
  Range x_, y_;
};

std::string colour_class(std::size_t series) {
  return fmt::format("s{} d{}", series % kColours, std::min<std::size_t>(series / kColours, 3));
}

std::string band(const PlotSeries& series, const Axes& axes, std::size_t number) {
  if (series.low.size() != series.x.size() || series.high.size() != series.x.size()) return "";
  std::string up;
  std::string back;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.low[i]) || !std::isfinite(series.high[i])) continue;
    up += fmt::format("{:.1f},{:.1f} ", axes.x(series.x[i]), axes.y(series.high[i]));
    back = fmt::format("{:.1f},{:.1f} ", axes.x(series.x[i]), axes.y(series.low[i])) + back;
  }
  if (up.empty()) return "";
  back.pop_back();
  return fmt::format("<polygon class=\"band {}\" points=\"{}{}\"/>\n", colour_class(number), up, back);
}

std::string line(const PlotSeries& series, const Axes& axes, std::size_t number) {
  std::string points;
  std::string dots;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    const double x = axes.x(series.x[i]);
    const double y = axes.y(series.y[i]);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    dots += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {:g} at {:g}</title></circle>\n",
        colour_class(number), x, y, html_escaped(series.name), series.y[i], series.x[i]);
  }
  if (points.empty()) return "";
  return fmt::format("<polyline class=\"line {}\" points=\"{}\"/>\n{}", colour_class(number), points, dots);
}

std::string grid(const LinePlot& plot, const Axes& axes) {
  std::string out;
  for (const double tick : round_ticks(axes.y_range())) {
    const double y = axes.y(tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        kLeft, Axes::right(), y, kLeft - 8, y + 4, tick);
  }
  for (const double tick : plot.x_ticks) {
    const double x = axes.x(tick);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        x, kTop, Axes::bottom(), Axes::bottom() + 18, tick);
  }
  if (plot.marked_x > 0) {
    const double x = axes.x(plot.marked_x);
    out += fmt::format(
        "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4}\">{5}</text>\n",
        x, kTop, Axes::bottom(), x + 6, kTop + 12, html_escaped(plot.mark_label));
  }
  const double middle = (kLeft + Axes::right()) / 2;
  const double half = kTop + kPlotHeight / 2;
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
      "<text x=\"15\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 15 {})\">{}</text>\n",
      middle, Axes::bottom() + 40, html_escaped(plot.x_label), half, half, html_escaped(plot.y_label));
  return out;
}

std::string legend(const LinePlot& plot) {
  std::string out;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const double y = kTop + 8 + kLegendLine * static_cast<double>(i);
    const double x = Axes::right() + 16;
    out += fmt::format(
        "<line class=\"line {}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
        colour_class(i), x, x + 22, y, y, x + 30, y + 4, html_escaped(plot.series[i].name));
  }
  return out;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

std::string svg_plot(const LinePlot& plot) {
  Range x;
  Range y;
  for (const PlotSeries& series : plot.series) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.y[i]) || series.x[i] <= 0) continue;
      x.add(series.x[i]);
      y.add(series.y[i]);
      if (i < series.low.size()) y.add(series.low[i]);
      if (i < series.high.size()) y.add(series.high[i]);
    }
  }
  if (x.empty()) return "";
  for (const double tick : plot.x_ticks) x.add(tick);
  if (plot.marked_x > 0) x.add(plot.marked_x);
  const Axes axes(x, y);
  const double legend_height = kTop + kLegendLine * static_cast<double>(plot.series.size()) + 8;
  const double height = std::max(kTop + kPlotHeight + kBottom, legend_height);
  std::string out = fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                                height, html_escaped(plot.title));
  out += grid(plot, axes);
  for (std::size_t i = 0; i < plot.series.size(); ++i) out += band(plot.series[i], axes, i);
  for (std::size_t i = 0; i < plot.series.size(); ++i) out += line(plot.series[i], axes, i);
  return out + legend(plot) + "</svg>\n";
}

}  // namespace ropewalk
