#include "train/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "framework/error.h"
#include "train/config_error.h"
#include "train/text.h"
#include "train/verify_case.h"

namespace ropewalk {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const CaseKind* find_kind(const std::string& op) {
  for (const auto kinds : {operation_cases(), position_cases(), model_cases()}) {
    for (const CaseKind& kind : kinds) {
      if (kind.op == op) return &kind;
    }
  }
  return nullptr;
}

/// The true values of a dataset, as numbers.
std::vector<double> truth_of(const Hdf5File& file, const std::string& object, const CaseResult& result) {
  if (file.dataset(object).shape != result.shape) {
    file.fail(object, fmt::format("has the shape [{}] instead of [{}]", fmt::join(file.dataset(object).shape, ", "),
                                  fmt::join(result.shape, ", ")));
  }
  if (!result.integer) return file.values<double>(object);
  const std::vector<int64_t>& integers = file.values<int64_t>(object);
  return {integers.begin(), integers.end()};
}

std::string group_of(const std::string& dataset) {
  return dataset.substr(0, dataset.find('/'));
}

/// How far a run is from the truth: its worst dataset.
struct Deviation {
  std::string what;  ///< a dataset, or why nothing was computed
  double error = 0.0;
  bool computed = true;
};

double largest_difference(const std::vector<double>& values, const std::vector<double>& truth) {
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(values[i] - truth[i]);
    if (!std::isfinite(difference)) return kInfinity;
    largest = std::max(largest, difference);
  }
  return largest;
}

Deviation compare(const Hdf5File& file, const std::string& name, const std::map<std::string, CaseResult>& results) {
  const std::string prefix = "/" + name + "/";
  std::map<std::string, std::vector<double>> truths;
  std::map<std::string, double> scales;  // by group
  for (const auto& [dataset, result] : results) {
    std::vector<double>& truth = truths[dataset] = truth_of(file, prefix + dataset, result);
    double& scale = scales[group_of(dataset)];
    for (const double value : truth) scale = std::max(scale, std::abs(value));
  }
  // A truth that nothing is compared with would be a test that cannot fail.
  for (const std::string_view group : {kOutputs, kInputGrads, kParameterGrads, kFinalParameters}) {
    for (const std::string& child : file.children(prefix + std::string(group))) {
      const std::string dataset = fmt::format("{}/{}", group, child);
      if (results.count(dataset) == 0) file.fail(prefix + dataset, "is nothing that a case of this op gives");
    }
  }
  Deviation worst;
  for (const auto& [dataset, result] : results) {
    const double difference = largest_difference(result.values, truths[dataset]);
    const double scale = scales[group_of(dataset)];
    // A group of zeros has no scale: there the difference counts as it is. One with an infinity has none either, and
    // infinity over infinity would be no error at all.
    const bool has_scale = scale > 0.0 && std::isfinite(scale);
    const double error = has_scale ? difference / scale : difference;
    if (worst.what.empty() || error > worst.error) worst = {dataset, error};
  }
  return worst;
}

/// Runs one case in one precision; nothing for a case of what this version does not have.
std::optional<Deviation> run_case(const Hdf5File& file, const std::string& name, const std::string& op, DType dtype) {
  const CaseKind* kind = find_kind(op);
  if (kind == nullptr) return std::nullopt;
  ConformanceCase conformance_case(file, name, dtype);
  try {
    kind->run(conformance_case);
  } catch (const UnsupportedCase&) {
    return std::nullopt;
  } catch (const ConfigError& error) {
    return Deviation{"refused: " + error.messages().front(), kInfinity, false};
  } catch (const Error& error) {
    return Deviation{std::string("refused: ") + error.what(), kInfinity, false};
  }
  return compare(file, name, conformance_case.results());
}

void check_format(const Hdf5File& file) {
  constexpr std::string_view kFormat = "ropewalk-conformance";
  if (!file.has_attribute("/", "format") || file.attribute<std::string>("/", "format") != kFormat) {
    file.fail("/", fmt::format("has no attribute 'format' = '{}': this is no conformance file", kFormat));
  }
  if (const auto version = file.attribute<int64_t>("/", "format_version"); version != 1) {
    file.fail("/", fmt::format("has format_version = {}; this program reads version 1", version));
  }
}

VerifyLine& line_of(VerifyReport& report, const std::string& op) {
  const auto found =
      std::find_if(report.lines.begin(), report.lines.end(), [&](const VerifyLine& line) { return line.op == op; });
  if (found != report.lines.end()) return *found;
  return report.lines.emplace_back(VerifyLine{.op = op});
}

std::string failure_text(const std::string& name, const Deviation& deviation, std::string_view dtype, double bound) {
  if (!deviation.computed) return fmt::format("{}: {}", printable(name), printable(deviation.what));
  return fmt::format("{}: {} is off by {:.2e} in {}, bound {:.0e}", printable(name), printable(deviation.what),
                     deviation.error, dtype, bound);
}

void verify_case(const Hdf5File& file, const std::string& name, const VerifyBounds& bounds, VerifyReport& report) {
  if (file.has_dataset("/" + name)) file.fail("/" + name, "is a dataset where a case (a group) should be");
  const auto op = file.attribute<std::string>("/" + name, "op");
  VerifyLine& line = line_of(report, op);
  ++line.cases;
  const std::optional<Deviation> f64 = run_case(file, name, op, DType::f64);
  const std::optional<Deviation> f32 = f64 ? run_case(file, name, op, DType::f32) : std::nullopt;
  if (!f32) {
    ++line.unsupported;
    ++report.unsupported;
    return;
  }
  line.worst_f64 = std::max(line.worst_f64, f64->error);
  line.worst_f32 = std::max(line.worst_f32, f32->error);
  const bool f64_passes = f64->error <= bounds.f64;
  if (f64_passes && f32->error <= bounds.f32) {
    ++report.passed;
    return;
  }
  ++line.failed;
  ++report.failed;
  report.failures.push_back(f64_passes ? failure_text(name, *f32, name_of(DType::f32), bounds.f32)
                                       : failure_text(name, *f64, name_of(DType::f64), bounds.f64));
}

}  // namespace

VerifyReport verify_conformance(const std::string& path) {
  return verify_conformance(read_hdf5(path, Hdf5Access::complete));
}

VerifyReport verify_conformance(const Hdf5File& file, const VerifyBounds& bounds) {
  check_format(file);
  VerifyReport report;
  for (const auto kinds : {operation_cases(), position_cases(), model_cases()}) {
    for (const CaseKind& kind : kinds) report.lines.push_back({.op = std::string(kind.op)});
  }
  for (const std::string& name : file.children("/")) verify_case(file, name, bounds, report);
  std::erase_if(report.lines, [](const VerifyLine& line) { return line.cases == 0; });
  if (report.lines.empty()) file.fail("/", "holds no case");
  return report;
}

std::string to_text(const VerifyReport& report) {
  std::size_t width = 2;
  for (const VerifyLine& line : report.lines) width = std::max(width, printable(line.op).size());
  std::string text = fmt::format("{:<{}}  cases  worst f64  worst f32\n", "op", width);
  for (const VerifyLine& line : report.lines) {
    text += fmt::format("{:<{}}  {:>5}", printable(line.op), width, line.cases);
    if (line.unsupported == line.cases) {
      text += fmt::format("  {:>9}  {:>9}  unsupported\n", "-", "-");
      continue;
    }
    text += fmt::format("  {:>9.1e}  {:>9.1e}  ", line.worst_f64, line.worst_f32);
    text += line.failed > 0 ? fmt::format("FAIL ({} of {})", line.failed, line.cases) : "ok";
    if (line.unsupported > 0) text += fmt::format(" ({} unsupported)", line.unsupported);
    text += "\n";
  }
  return text + fmt::format("{} passed, {} failed, {} unsupported\n", report.passed, report.failed, report.unsupported);
}

}  // namespace ropewalk
