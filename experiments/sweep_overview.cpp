#include "experiments/sweep_overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "experiments/run_result.h"
#include "experiments/terminal.h"
#include "train/describe.h"
#include "train/text.h"

namespace ropewalk {
namespace {

struct Description {
  std::vector<std::string> variants;
  std::vector<std::string> lines;

  bool has(const std::string& line) const { return std::find(lines.begin(), lines.end(), line) != lines.end(); }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

std::vector<Description> descriptions_of(const SweepPlan& plan) {
  std::vector<Description> out;
  for (const SweepPoint& point : variant_points(plan)) {
    std::vector<std::string> lines = lines_of(describe(point.config));
    const auto same = std::find_if(out.begin(), out.end(), [&](const Description& d) { return d.lines == lines; });
    if (same == out.end()) {
      out.push_back({{point.variant}, std::move(lines)});
    } else {
      same->variants.push_back(point.variant);
    }
  }
  return out;
}

}  // namespace

std::vector<SweepPoint> variant_points(const SweepPlan& plan) {
  std::vector<SweepPoint> out;
  std::set<std::string> seen;
  for (const SweepPoint& point : plan.points) {
    if (seen.insert(point.variant).second) out.push_back(point);
  }
  return out;
}

std::string runs_text(const SweepPlan& plan) {
  std::string out = "   #  run";
  std::size_t width = 4;
  for (const SweepPoint& point : plan.points) width = std::max(width, run_id(point).size());
  out += std::string(width - 3, ' ');
  for (const std::string& key : plan.varying_keys) out += "  " + key;
  out += "\n";
  int number = 0;
  for (const SweepPoint& point : plan.points) {
    out += fmt::format("{:>4}  {}", ++number, padded_right(run_id(point), width));
    for (const std::string& key : plan.varying_keys) {
      out += "  " + padded_right(config_value(point.config.config, key), key.size());
    }
    while (out.back() == ' ') out.pop_back();
    out += "\n";
  }
  return out;
}

std::string describe_sweep(const SweepPlan& plan) {
  const std::vector<Description> descriptions = descriptions_of(plan);
  const auto shared = [&](const std::string& line) {
    return std::all_of(descriptions.begin(), descriptions.end(), [&](const Description& d) { return d.has(line); });
  };
  std::string out = counted(plan.points.size(), "run") + "; what all have in common:\n";
  for (const std::string& line : descriptions.front().lines) {
    if (shared(line)) out += line + "\n";
  }
  for (const Description& description : descriptions) {
    out += fmt::format("\nvariant{} {}\n", description.variants.size() == 1 ? "" : "s", joined(description.variants));
    for (const std::string& line : description.lines) {
      if (!shared(line)) out += line + "\n";
    }
  }
  return out;
}

}  // namespace ropewalk
