#include "experiments/inspect_command.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "experiments/inspect.h"
#include "experiments/run_result.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::pair<const char*, Curve> kCurveNames[] = {
    {"loss", Curve::loss}, {"grad_norm", Curve::grad_norm}, {"length", Curve::length}};

bool read_step(std::string_view text, int64_t& step) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), step);
  return problem == std::errc() && end == text.data() + text.size() && step >= 0;
}

/// "40", "40..80", "40..", "..80"
StepRange range_of(const std::string& text) {
  StepRange out;
  const std::size_t dots = text.find("..");
  bool good = true;
  if (dots == std::string::npos) {
    good = read_step(text, out.first);
    out.last = out.first;
  } else {
    const std::string_view first = std::string_view(text).substr(0, dots);
    const std::string_view last = std::string_view(text).substr(dots + 2);
    good = (first.empty() || read_step(first, out.first)) && (last.empty() || read_step(last, out.last)) &&
           out.first <= out.last && !(first.empty() && last.empty());
  }
  if (!good) {
    throw UsageError(
        fmt::format("--step = '{}': must be a step, as 40, or a range, as 40..80, 40.. or ..80", printable(text)));
  }
  return out;
}

std::optional<Curve> curve_of(const Arguments& arguments) {
  if (!arguments.has("--plot")) return std::nullopt;
  const std::string given = arguments.value("--plot");
  for (const auto& [name, curve] : kCurveNames) {
    if (given == name) return curve;
  }
  throw UsageError(fmt::format("--plot = '{}': must be loss, grad_norm or length", printable(given)));
}

/// Flags that would do nothing are refused.
void check_flags(const Arguments& arguments) {
  const std::string& file = arguments.files.front();
  const bool layers = arguments.has("--layers");
  const bool plot = arguments.has("--plot");
  if (layers && plot) throw UsageError("'ropewalk inspect' takes --plot or --layers, not both");
  if (arguments.has("--kind") && !layers) throw UsageError("--kind goes with --layers");
  if (arguments.has("--rows") && (layers || plot || arguments.has("--csv"))) {
    throw UsageError("--rows is for the tables; --step chooses the rows of plots and CSV");
  }
  if (!is_sweep_directory(file)) return;
  const auto refuse = [&](const char* flag) {
    throw UsageError(fmt::format("{} is for the log of one run; '{}' is a sweep: give one of the runs in it", flag,
                                 printable(file)));
  };
  if (layers) refuse("--layers");
  if (arguments.has("--rows")) refuse("--rows");
  if (arguments.has("--step") && !plot) refuse("--step");
}

}  // namespace

std::string inspect_command(const Arguments& arguments, const TextStyle& style) {
  check_flags(arguments);
  const std::string& file = arguments.files.front();
  InspectOptions options;
  options.rows = whole_number(arguments, "--rows", options.rows, 0, 1'000'000'000);
  if (arguments.has("--step")) options.steps = range_of(arguments.value("--step"));
  const std::optional<Curve> curve = curve_of(arguments);
  const bool csv = arguments.has("--csv");
  if (curve) {
    return csv ? inspect_plot_csv(file, *curve, options.steps) : inspect_plot(file, *curve, options.steps, style);
  }
  if (arguments.has("--layers")) {
    return csv ? inspect_layers_csv(file, arguments.value("--kind"), options.steps)
               : inspect_layers(file, arguments.value("--kind", "block"), options.steps, style);
  }
  return csv ? inspect_csv(file, options.steps) : inspect(file, options, style);
}

}  // namespace ropewalk
