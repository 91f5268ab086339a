#include "experiments/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/terminal.h"
#include "train/options.h"
#include "train/text.h"

namespace ropewalk {
namespace {

/// What the data say about the first place at one length.
struct FirstPlace {
  enum class Kind : uint8_t { best, shared, nobody, not_ranked };
  Kind kind = Kind::not_ranked;
  std::vector<std::size_t> variants;  ///< that hold it, in the order of the comparison

  bool operator==(const FirstPlace&) const = default;
};

FirstPlace first_place(const MetricTable& table, std::size_t column) {
  const Ranking ranking = rank(table, column);
  std::size_t ranked = 0;
  for (const auto& tier : ranking.tiers) ranked += tier.size();
  if (ranked < 2) return {};
  if (ranking.tiers.size() == 1) return {FirstPlace::Kind::nobody, {}};
  const std::vector<std::size_t>& first = ranking.tiers.front();
  FirstPlace place{first.size() == 1 ? FirstPlace::Kind::best : FirstPlace::Kind::shared, first};
  std::sort(place.variants.begin(), place.variants.end());
  return place;
}

/// "a", "a and b", "a, b and c"
std::string listed(std::vector<std::string> parts) {
  if (parts.size() < 2) return joined(parts);
  const std::string last = parts.back();
  parts.pop_back();
  return joined(parts) + " and " + last;
}

std::string names(const Comparison& comparison, std::span<const std::size_t> variants) {
  std::vector<std::string> out;
  for (const std::size_t v : variants) out.push_back(comparison.variants[v].name);
  return listed(out);
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// "4x (256 tokens)"
std::string column_text(const ComparisonColumn& column) {
  const std::string multiple = multiple_text(column.multiple);
  return column.lengths.size() == 1 ? fmt::format("{} ({} tokens)", multiple, column.lengths[0]) : multiple;
}

std::string with_unit(const std::string& value, Metric metric) {
  const std::string unit = metric_unit(metric);
  return unit.empty() ? value : value + " " + unit;
}

/// "1.790 to 1.862"
std::string range_of_means(const MetricTable& table, std::span<const std::size_t> variants, std::size_t begin,
                           std::size_t end) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (std::size_t column = begin; column < end; ++column) {
    for (const std::size_t v : variants) {
      least = std::min(least, table.cells[v][column].mean());
      greatest = std::max(greatest, table.cells[v][column].mean());
    }
  }
  return fmt::format("{} to {}", value_text(least, greatest), value_text(greatest, greatest));
}

/// "0.395 less than t5, the nearest by mean (95 % interval 0.310 to 0.480, n = 3 seeds)"
std::string lead_over_the_next(const Comparison& comparison, const MetricTable& table, std::size_t column,
                               std::size_t best, std::size_t next) {
  const bool less = less_is_better(table.metric);
  const MeanInterval lead = less ? difference(table, next, best, column) : difference(table, best, next, column);
  const double scale = table.cells[best][column].mean();
  return fmt::format("{} {} than {}, the nearest by mean (95 % interval {} to {}, n = {} seeds)",
                     value_text(lead.mean, scale), less ? "less" : "more", comparison.variants[next].name,
                     value_text(lead.low, scale), value_text(lead.high, scale), lead.n);
}

/// What the data say at the columns [begin, end), of which all have the same first place and only those with a single
/// winner differ in their numbers.
std::string finding(const Comparison& comparison, const MetricTable& table, std::size_t begin, std::size_t end) {
  const FirstPlace place = first_place(table, begin);
  const std::size_t column = begin;
  const std::string where = end - begin == 1 ? "at " + column_text(comparison.columns[begin])
                                             : fmt::format("from {} to {}", column_text(comparison.columns[begin]),
                                                           column_text(comparison.columns[end - 1]));
  const std::string head = fmt::format("{} {}: ", capitalized(metric_name(table.metric)), where);
  const Ranking ranking = rank(table, column);
  std::string aside;
  if (!ranking.too_few_seeds.empty()) {
    aside = fmt::format("; not placed, with fewer than {} seeds: {}", kFewestSeedsToRank,
                        names(comparison, ranking.too_few_seeds));
  }
  switch (place.kind) {
    case FirstPlace::Kind::not_ranked:
      return "";
    case FirstPlace::Kind::best: {
      const std::size_t best = place.variants.front();
      const double mean = table.cells[best][column].mean();
      return head + fmt::format("{} is best with {}, {}{}.", comparison.variants[best].name,
                                with_unit(value_text(mean, mean), table.metric),
                                lead_over_the_next(comparison, table, column, best, ranking.tiers[1].front()), aside);
    }
    case FirstPlace::Kind::shared:
      return head + fmt::format("{} come before all others, and the data do not give them an order (means {}){}.",
                                names(comparison, place.variants),
                                with_unit(range_of_means(table, place.variants, begin, end), table.metric), aside);
    case FirstPlace::Kind::nobody:
      return head + fmt::format("no variant is separated from all others (means {}){}.",
                                with_unit(range_of_means(table, ranking.tiers.front(), begin, end), table.metric),
                                aside);
  }
  return "";
}

/// "alibi is best from 2x to 8x"
std::string clause(const Comparison& comparison, const FirstPlace& place, std::size_t begin, std::size_t end) {
  const std::size_t count = comparison.columns.size();
  std::string where = fmt::format("at {}", multiple_text(comparison.columns[begin].multiple));
  if (end - begin > 1) {
    where = fmt::format("from {} to {}", multiple_text(comparison.columns[begin].multiple),
                        multiple_text(comparison.columns[end - 1].multiple));
  }
  if (begin == 0 && end == count && count > 1) where = "at every evaluated length";
  switch (place.kind) {
    case FirstPlace::Kind::best:
      return names(comparison, place.variants) + " is best " + where;
    case FirstPlace::Kind::shared:
      return names(comparison, place.variants) + " share the first place " + where;
    case FirstPlace::Kind::nobody:
      return "no variant is separated from all others " + where;
    case FirstPlace::Kind::not_ranked:
      return "nothing is ranked " + where;
  }
  return "";
}

/// Calls f(place, begin, end) for each longest range of columns with the same first place.
template <typename F>
void for_each_place(const Comparison& comparison, const MetricTable& table, F&& f) {
  std::size_t begin = 0;
  for (std::size_t c = 1; c <= comparison.columns.size(); ++c) {
    const FirstPlace place = first_place(table, begin);
    if (c < comparison.columns.size() && first_place(table, c) == place) continue;
    f(place, begin, c);
    begin = c;
  }
}

std::string lead_of(const Comparison& comparison, const MetricTable& table) {
  std::vector<std::string> clauses;
  for_each_place(comparison, table, [&](const FirstPlace& place, std::size_t begin, std::size_t end) {
    clauses.push_back(clause(comparison, place, begin, end));
  });
  return fmt::format("By {}, {}.", metric_name(table.metric), joined(clauses, "; "));
}

/// Of tasks what is asked of an answer, else the loss.
std::vector<const MetricTable*> headline_tables(const Comparison& comparison) {
  std::vector<const MetricTable*> out;
  for (const MetricTable& table : comparison.tables) {
    if (table.metric != Metric::loss || comparison.tables.size() == 1) out.push_back(&table);
  }
  return out;
}

std::size_t most_seeds(const Comparison& comparison) {
  std::size_t most = 0;
  for (const MetricTable& table : comparison.tables) {
    for (const auto& row : table.cells) {
      for (const ComparisonCell& cell : row) most = std::max(most, cell.by_seed.size());
    }
  }
  return most;
}

/// What the only variant came to.
std::string values_of_one(const Comparison& comparison, std::size_t variant) {
  std::vector<std::string> parts;
  std::size_t n = 0;
  for (const MetricTable* table : headline_tables(comparison)) {
    for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
      const ComparisonCell& cell = table->cells[variant][c];
      if (cell.by_seed.empty()) continue;
      n = std::max(n, cell.by_seed.size());
      parts.push_back(fmt::format("{} {} at {}", metric_name(table->metric),
                                  with_unit(value_text(cell.mean(), cell.mean()), table->metric),
                                  column_text(comparison.columns[c])));
    }
  }
  if (parts.size() > 2) parts = {parts.front(), parts.back()};
  return fmt::format("{}: {} (n = {}). There is nothing to compare it with.", comparison.variants[variant].name,
                     listed(parts), counted(n, "seed"));
}

/// "post: 2 of 3 runs diverged, first at step 31, first in blocks.3.ffn (gradient) (post-s2)"
void add_divergence(std::span<const RunResult> runs, const ComparedVariant& variant, std::vector<std::string>& out) {
  if (variant.diverged == 0) return;
  const RunResult* earliest = nullptr;
  for (const RunResult& run : runs) {
    if (run.variant != variant.name || run.divergence.empty()) continue;
    if (earliest == nullptr || run.divergence.front().step < earliest->divergence.front().step) earliest = &run;
  }
  std::string text = fmt::format("{}: {} of {} diverged", variant.name, variant.diverged, counted(variant.runs, "run"));
  if (earliest != nullptr) {
    text += fmt::format("{} at {}, in run {}", variant.diverged > 1 ? ", earliest" : "",
                        divergence_text(earliest->divergence.front()), earliest->id);
  }
  if (variant.counted > 0) text += fmt::format("; its means hold only the {} that did not", variant.counted);
  out.push_back(text + ".");
}

/// "learned: beyond its positions at 1.5x, 2x"
void add_missing(const Comparison& comparison, std::size_t variant, std::vector<std::string>& out) {
  if (comparison.tables.empty() || comparison.variants[variant].counted == 0) return;
  std::map<std::string, std::vector<std::string>> where;
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
    const ComparisonCell& cell = comparison.tables.front().cells[variant][c];
    if (cell.by_seed.empty() && !cell.missing.empty()) {
      where[cell.missing].push_back(multiple_text(comparison.columns[c].multiple));
    }
  }
  for (const auto& [reason, multiples] : where) {
    out.push_back(fmt::format("{}: {} at {}.", comparison.variants[variant].name, reason, listed(multiples)));
  }
}

std::vector<std::string> cautions_of(std::span<const RunResult> runs, const Comparison& comparison) {
  std::vector<std::string> out;
  std::size_t unfinished = 0;
  for (const ComparedVariant& variant : comparison.variants) {
    add_divergence(runs, variant, out);
    unfinished += variant.unfinished;
  }
  for (const ComparedVariant& variant : comparison.variants) {
    if (variant.failed == 0) continue;
    out.push_back(fmt::format("{}: {} of {} failed.", variant.name, variant.failed, counted(variant.runs, "run")));
  }
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) add_missing(comparison, v, out);
  if (unfinished > 0) {
    out.push_back(fmt::format("{} {} not finished; what is said here may change.", counted(unfinished, "run"),
                              unfinished == 1 ? "is" : "are"));
  }
  std::vector<std::string> data;
  for (const std::string& key : differing_keys(runs)) {
    const bool scored = key == "eval.tokens" || key == "eval.tail" || key == "eval.stride";
    if (key.starts_with("data.") || scored) data.push_back(key);
  }
  if (!data.empty()) {
    out.push_back(
        fmt::format("The runs differ in {}, so that they are not all scored on the same tokens.", listed(data)));
  }
  return out;
}

std::string method_of(const Comparison& comparison, bool ranked) {
  std::string out;
  if (ranked) {
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    std::size_t most = 0;
    for (const MetricTable* table : headline_tables(comparison)) {
      for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
        const Ranking ranking = rank(*table, c);
        if (ranking.most_pairs == 0) continue;
        fewest = std::min(fewest, ranking.fewest_pairs);
        most = std::max(most, ranking.most_pairs);
      }
    }
    out = fmt::format(
        "Differences are paired over the seeds that finished in both variants ({}), with two-sided 95 % t intervals, "
        "which are not corrected for their number. A variant is called best only where the interval excludes zero "
        "against every other one. ",
        fewest == most ? fmt::format("n = {}", most) : fmt::format("n = {} to {}", fewest, most));
  }
  if (!comparison.protocol.empty()) out += "Protocol " + protocol_text(comparison.protocol) + ".";
  return out;
}

}  // namespace

Verdict verdict(std::span<const RunResult> runs, const Comparison& comparison) {
  Verdict out;
  out.cautions = cautions_of(runs, comparison);
  std::vector<std::size_t> with_values;
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    if (comparison.variants[v].counted > 0) with_values.push_back(v);
  }
  if (with_values.empty() || comparison.columns.empty()) {
    out.lead =
        runs.empty() ? "There are no runs." : fmt::format("None of {} has results.", counted(runs.size(), "run"));
    return out;
  }
  if (comparison.protocol == kSeveralProtocols) {
    out.lead = "Nothing is ranked: the runs were evaluated by different protocols, whose numbers do not compare.";
    return out;
  }
  if (with_values.size() == 1) {
    out.lead = values_of_one(comparison, with_values.front());
    out.method = method_of(comparison, false);
    return out;
  }
  const std::size_t seeds = most_seeds(comparison);
  if (seeds < kFewestSeedsToRank) {
    out.lead = fmt::format(
        "Nothing is ranked: {} a variant {} too few to tell differences from chance, at least {} are needed "
        "(sweep.seeds = 1..5). The tables and charts show what was measured.",
        counted(seeds, "seed"), seeds == 1 ? "is" : "are", kFewestSeedsToRank);
    out.method = method_of(comparison, false);
    return out;
  }
  std::vector<std::string> leads;
  bool ranked = false;
  for (const MetricTable* table : headline_tables(comparison)) {
    leads.push_back(lead_of(comparison, *table));
    for_each_place(comparison, *table, [&](const FirstPlace& place, std::size_t begin, std::size_t end) {
      if (place.kind == FirstPlace::Kind::not_ranked) return;
      ranked = true;
      const bool one_by_one = place.kind == FirstPlace::Kind::best;  // each with its own difference
      for (std::size_t c = begin; c < end; c = one_by_one ? c + 1 : end) {
        out.findings.push_back(finding(comparison, *table, c, one_by_one ? c + 1 : end));
      }
    });
  }
  out.lead = joined(leads, " ");
  out.method = method_of(comparison, ranked);
  return out;
}

std::vector<std::string> differing_keys(std::span<const RunResult> runs) {
  std::vector<std::string> out;
  for (const Option& option : option_table().options()) {
    if (option.key == "train.seed") continue;
    std::set<std::string> values;
    for (const RunResult& run : runs) {
      const auto found = run.configuration.find(option.key);
      if (found != run.configuration.end()) values.insert(found->second);
    }
    if (values.size() > 1) out.push_back(option.key);
  }
  return out;
}

}  // namespace ropewalk
