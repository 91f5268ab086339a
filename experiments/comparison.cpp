#include "experiments/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "experiments/statistics.h"
#include "train/text.h"

namespace ropewalk {
namespace {

using Column = std::vector<double> RunResult::*;

Column column_of(Metric metric) {
  switch (metric) {
    case Metric::loss:
      return &RunResult::loss;
    case Metric::exact_match:
      return &RunResult::exact_match;
    case Metric::accuracy:
      return &RunResult::accuracy;
  }
  return &RunResult::loss;
}

/// The length that multiples count in: that of training, else (unknown) the shortest evaluated.
int64_t unit_length(const RunResult& run) {
  if (run.train_length > 0) return run.train_length;
  return run.lengths.empty() ? 1 : std::max<int64_t>(run.lengths.front(), 1);
}

double multiple_of(const RunResult& run, std::size_t i) {
  return static_cast<double>(run.lengths[i]) / static_cast<double>(unit_length(run));
}

void add_value(const RunResult& run, std::size_t i, double value, ComparisonCell& cell) {
  if (std::isfinite(value)) {
    cell.by_seed[run.seed] = value;
  } else {
    const bool beyond = run.positions_end && run.lengths[i] > unit_length(run);
    cell.missing = beyond ? "beyond its positions" : "not evaluable";
  }
}

std::size_t variant_index(Comparison& comparison, const std::string& name) {
  const auto found = std::find_if(comparison.variants.begin(), comparison.variants.end(),
                                  [&](const ComparedVariant& variant) { return variant.name == name; });
  if (found != comparison.variants.end()) return static_cast<std::size_t>(found - comparison.variants.begin());
  comparison.variants.push_back({name});
  return comparison.variants.size() - 1;
}

std::vector<ComparisonColumn> columns_of(std::span<const RunResult> runs) {
  std::map<double, std::set<int64_t>> lengths;
  for (const RunResult& run : runs) {
    if (!run.counts()) continue;
    for (std::size_t i = 0; i < run.lengths.size(); ++i) lengths[multiple_of(run, i)].insert(run.lengths[i]);
  }
  std::vector<ComparisonColumn> out;
  for (const auto& [multiple, set] : lengths) out.push_back({multiple, {set.begin(), set.end()}});
  return out;
}

void count(const RunResult& run, ComparedVariant& variant) {
  ++variant.runs;
  if (run.counts()) {
    ++variant.counted;
  } else if (run.has_diverged()) {
    ++variant.diverged;
  } else if (run.status == "failed") {
    ++variant.failed;
  } else {
    ++variant.unfinished;
  }
}

/// What became of a run whose results do not count; "" if they do or are still to come.
std::string fate(const RunResult& run) {
  if (run.has_diverged()) {
    return run.divergence.empty() ? "diverged" : "diverged at " + divergence_text(run.divergence.front());
  }
  if (run.counts() || run.status == "waiting" || run.status == "running") return "";
  return fmt::format("{}{}", run.status, run.reason.empty() ? "" : ": " + run.reason);
}

std::vector<std::string> fates(std::span<const RunResult> runs) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const RunResult& run : runs) {
    const std::string text = fate(run);
    if (text.empty()) continue;
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == text; });
    if (known == groups.end()) {
      groups.push_back({text, {run.id}});
    } else {
      known->second.push_back(run.id);
    }
  }
  std::vector<std::string> out;
  for (const auto& [text, ids] : groups) out.push_back(first_of(ids, kShown) + " " + text);
  return out;
}

/// Is `a` told from `b`, and better?
bool beats(const MetricTable& table, std::size_t a, std::size_t b, std::size_t column, std::size_t* pairs) {
  const MeanInterval paired = difference(table, a, b, column);
  *pairs = paired.n;
  if (paired.n < kFewestSeedsToRank) return false;
  return less_is_better(table.metric) ? paired.high < 0 : paired.low > 0;
}

std::vector<std::size_t> by_mean(const MetricTable& table, std::size_t column) {
  std::vector<std::size_t> order;
  for (std::size_t v = 0; v < table.cells.size(); ++v) {
    if (!table.cells[v][column].by_seed.empty()) order.push_back(v);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const double first = table.cells[a][column].mean();
    const double second = table.cells[b][column].mean();
    return less_is_better(table.metric) ? first < second : first > second;
  });
  return order;
}

std::vector<std::string> names(const Comparison& comparison, std::span<const std::size_t> variants) {
  std::vector<std::string> out;
  for (const std::size_t v : variants) out.push_back(comparison.variants[v].name);
  return out;
}

/// "1. alibi  2. {rope, t5}  4. none"
std::string tiers_text(const Comparison& comparison, const Ranking& ranking) {
  std::string out;
  std::size_t place = 1;
  for (const std::vector<std::size_t>& tier : ranking.tiers) {
    const std::string list = joined(names(comparison, tier));
    out += fmt::format("{}{}. {}", out.empty() ? "" : "  ", place, tier.size() > 1 ? "{" + list + "}" : list);
    place += tier.size();
  }
  return out;
}

std::string told_apart_text(const Comparison& comparison, const Ranking& ranking) {
  std::map<std::size_t, std::vector<std::size_t>> worse;
  std::vector<std::string> parts;
  for (const auto& [better, other] : ranking.told_apart) worse[better].push_back(other);
  for (const auto& [better, others] : worse) {
    parts.push_back(fmt::format("{} before {}", comparison.variants[better].name, joined(names(comparison, others))));
  }
  return joined(parts, "; ");
}

/// The variant that stands alone before all others.
std::optional<std::size_t> winner(const MetricTable& table, std::size_t column) {
  const Ranking ranking = rank(table, column);
  if (ranking.tiers.size() < 2 || ranking.tiers.front().size() != 1 || !ranking.too_few_seeds.empty()) return {};
  return ranking.tiers.front().front();
}

std::size_t run_count(const Comparison& comparison) {
  std::size_t runs = 0;
  for (const ComparedVariant& variant : comparison.variants) runs += variant.runs;
  return runs;
}

std::string outcome_text(const ComparedVariant& variant) {
  std::vector<std::string> parts;
  if (variant.diverged > 0) parts.push_back(fmt::format("{} diverged", variant.diverged));
  if (variant.failed > 0) parts.push_back(fmt::format("{} failed", variant.failed));
  if (variant.unfinished > 0) parts.push_back(fmt::format("{} not finished", variant.unfinished));
  return joined(parts);
}

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string table_text(const Comparison& comparison, const MetricTable& table, const TextStyle& style) {
  std::size_t name_width = 7;
  for (const ComparedVariant& variant : comparison.variants) name_width = std::max(name_width, columns(variant.name));
  std::vector<std::size_t> widths;
  std::vector<std::optional<std::size_t>> winners;
  std::string head = padded_right("variant", name_width) + " runs";
  std::string lengths = padded_right("", name_width) + "     ";
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
    std::size_t width = 6;
    for (const auto& row : table.cells) {
      if (!row[c].by_seed.empty()) width = std::max(width, columns(cell_text(row[c])));
    }
    widths.push_back(width);
    winners.push_back(comparison.protocol == kSeveralProtocols ? std::nullopt : winner(table, c));
    const ComparisonColumn& column = comparison.columns[c];
    head += " " + padded_right(multiple_text(column.multiple), width);
    lengths += " " + padded_right(column.lengths.size() == 1 ? fmt::format("{}", column.lengths[0]) : "", width);
  }
  std::string out = style.bold(without_end(head)) + "\n" + style.faint(without_end(lengths)) + "\n";
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    const ComparedVariant& variant = comparison.variants[v];
    std::string line = padded_right(variant.name, name_width) + " " +
                       padded_right(fmt::format("{}/{}", variant.counted, variant.runs), 4);
    std::string last_reason;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const ComparisonCell& cell = table.cells[v][c];
      const std::string text = cell.by_seed.empty() && cell.missing == last_reason ? "" : cell_text(cell);
      last_reason = cell.by_seed.empty() ? cell.missing : "";
      const std::string cell_padded = padded_right(text, widths[c]);
      const bool first = winners[c] && *winners[c] == v;
      line += " " + (first ? style.green(cell_padded) : cell.by_seed.empty() ? style.faint(cell_padded) : cell_padded);
    }
    if (variant.counted == 0) line += " " + style.red(outcome_text(variant));
    out += without_end(line) + "\n";
  }
  return out;
}

}  // namespace

double ComparisonCell::mean() const {
  return ropewalk::mean(values());
}

double ComparisonCell::deviation() const {
  return standard_deviation(values());
}

MeanInterval ComparisonCell::interval() const {
  return mean_interval(values());
}

std::vector<double> ComparisonCell::values() const {
  std::vector<double> out;
  for (const auto& [seed, value] : by_seed) out.push_back(value);
  return out;
}

Comparison compare(std::span<const RunResult> runs) {
  Comparison out;
  out.columns = columns_of(runs);
  std::vector<Metric> metrics = {Metric::loss};
  std::set<std::string> protocols;
  std::set<int64_t> train_lengths;
  bool exact_match = false;
  bool accuracy = false;
  for (const RunResult& run : runs) {
    count(run, out.variants[variant_index(out, run.variant)]);
    if (!run.counts()) continue;
    if (!run.protocol.empty()) protocols.insert(run.protocol);
    train_lengths.insert(unit_length(run));
    exact_match = exact_match || !run.exact_match.empty();
    accuracy = accuracy || !run.accuracy.empty();
  }
  out.notes = fates(runs);
  if (exact_match) metrics.push_back(Metric::exact_match);
  if (accuracy) metrics.push_back(Metric::accuracy);
  if (!protocols.empty()) out.protocol = protocols.size() == 1 ? *protocols.begin() : kSeveralProtocols;
  out.train_lengths.assign(train_lengths.begin(), train_lengths.end());
  for (const Metric metric : metrics) {
    MetricTable table{metric, {out.variants.size(), std::vector<ComparisonCell>(out.columns.size())}};
    for (const RunResult& run : runs) {
      if (!run.counts()) continue;
      const std::vector<double>& values = run.*column_of(metric);
      for (std::size_t i = 0; i < run.lengths.size() && i < values.size(); ++i) {
        const auto column = std::find_if(out.columns.begin(), out.columns.end(),
                                         [&](const ComparisonColumn& c) { return c.multiple == multiple_of(run, i); });
        const auto c = static_cast<std::size_t>(column - out.columns.begin());
        add_value(run, i, values[i], table.cells[variant_index(out, run.variant)][c]);
      }
    }
    out.tables.push_back(std::move(table));
  }
  return out;
}

Ranking rank(const MetricTable& table, std::size_t column) {
  Ranking out;
  std::vector<std::size_t> order;
  for (const std::size_t v : by_mean(table, column)) {
    const bool enough = table.cells[v][column].by_seed.size() >= kFewestSeedsToRank;
    (enough ? order : out.too_few_seeds).push_back(v);
  }
  const std::size_t n = order.size();
  std::vector<std::vector<bool>> better(n, std::vector<bool>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      std::size_t pairs = 0;
      better[i][j] = beats(table, order[i], order[j], column, &pairs);
      const bool first = i == 0 && j == 1;
      out.fewest_pairs = first ? pairs : std::min(out.fewest_pairs, pairs);
      out.most_pairs = std::max(out.most_pairs, pairs);
    }
  }
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= n; ++end) {
    bool boundary = true;
    for (std::size_t i = 0; i < end && boundary; ++i) {
      for (std::size_t j = end; j < n && boundary; ++j) boundary = better[i][j];
    }
    if (!boundary) continue;
    out.tiers.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                           order.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t j = i + 1; j < end; ++j) {
        if (better[i][j]) out.told_apart.emplace_back(order[i], order[j]);
      }
    }
    begin = end;
  }
  return out;
}

std::string value_text(double value, double scale) {
  if (std::abs(scale) >= 1e5) return fmt::format("{:.3g}", value);
  const int decimals = std::abs(scale) < 9.9995 ? 3 : std::abs(scale) < 99.995 ? 2 : 1;
  return fmt::format("{:.{}f}", value, decimals);
}

bool can_rank(const Comparison& comparison, const MetricTable& table) {
  if (comparison.protocol == kSeveralProtocols) return false;
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
    std::size_t ranked = 0;
    for (const auto& tier : rank(table, c).tiers) ranked += tier.size();
    if (ranked >= 2) return true;
  }
  return false;
}

bool less_is_better(Metric metric) {
  return metric == Metric::loss;
}

MeanInterval difference(const MetricTable& table, std::size_t a, std::size_t b, std::size_t column) {
  const ComparisonCell& first = table.cells[a][column];
  const ComparisonCell& second = table.cells[b][column];
  std::vector<double> x;
  std::vector<double> y;
  for (const auto& [seed, value] : first.by_seed) {
    const auto same = second.by_seed.find(seed);
    if (same == second.by_seed.end()) continue;
    x.push_back(value);
    y.push_back(same->second);
  }
  return paired_difference(x, y);
}

std::string multiple_text(double multiple) {
  return fmt::format("{:.4g}x", multiple);
}

std::string cell_text(const ComparisonCell& cell) {
  if (cell.by_seed.empty()) return cell.missing;
  const double middle = cell.mean();
  const std::string value = value_text(middle, middle);
  if (cell.by_seed.size() < 2) return value;
  return fmt::format("{} ±{}", value, value_text(cell.deviation(), middle));
}

std::string metric_name(Metric metric) {
  switch (metric) {
    case Metric::loss:
      return "held-out loss";
    case Metric::exact_match:
      return "exact match";
    case Metric::accuracy:
      return "token accuracy";
  }
  return "";
}

std::string metric_unit(Metric metric) {
  return metric == Metric::loss ? "nats a token" : "";
}

std::string metric_text(Metric metric) {
  switch (metric) {
    case Metric::loss:
      return metric_name(metric) + " (" + metric_unit(metric) + ", less is better)";
    case Metric::exact_match:
      return metric_name(metric) + " (answers right in every token, more is better)";
    case Metric::accuracy:
      return metric_name(metric) + " (answer tokens that are right, more is better)";
  }
  return "";
}

std::string protocol_text(const std::string& protocol) {
  if (protocol == "same_tokens") {
    return "same_tokens: every length scores the same tokens, with more context before them";
  }
  if (protocol == "non_overlapping") {
    return "non_overlapping: longer windows look better by themselves, as fewer tokens stand early in one; compare "
           "within a column only";
  }
  if (protocol == "sliding") return "sliding: overlapping windows, of which the new tokens at the end are scored";
  if (protocol == "pairs") {
    return "pairs: problems of each length as source and target; loss and accuracy given the right tokens before, "
           "exact "
           "match of greedy decoding";
  }
  if (protocol == "task") return "task: problems of each length, answer tokens given the right ones before";
  if (protocol == kSeveralProtocols) return "several protocols: numbers of different protocols do not compare";
  return protocol;
}

std::vector<std::string> ranking_lines(const Comparison& comparison, const MetricTable& table) {
  std::vector<std::string> out;
  std::vector<std::string> lines;
  if (comparison.variants.size() < 2) return out;
  if (comparison.protocol == kSeveralProtocols) {
    return {"Nothing is ranked: the runs were evaluated by different protocols, whose numbers do not compare."};
  }
  std::size_t fewest = 0;
  std::size_t most = 0;
  std::size_t most_seeds = 0;
  bool any_ranked = false;
  for (std::size_t c = 0; c < comparison.columns.size(); ++c) {
    const Ranking ranking = rank(table, c);
    const std::string head = padded_right(multiple_text(comparison.columns[c].multiple), 6);
    std::size_t ranked = 0;
    for (const auto& tier : ranking.tiers) ranked += tier.size();
    for (const auto& row : table.cells) most_seeds = std::max(most_seeds, row[c].by_seed.size());
    if (ranked >= 2) {
      fewest = any_ranked ? std::min(fewest, ranking.fewest_pairs) : ranking.fewest_pairs;
      most = std::max(most, ranking.most_pairs);
      any_ranked = true;
      const bool one_tier = ranking.tiers.size() == 1;
      lines.push_back(head + (one_tier
                                  ? "nothing has a place of its own: " + joined(names(comparison, ranking.tiers[0]))
                                  : tiers_text(comparison, ranking)));
      if (!ranking.told_apart.empty()) {
        lines.push_back(padded_right("", 6) + "told apart all the same: " + told_apart_text(comparison, ranking));
      }
      if (!ranking.too_few_seeds.empty()) {
        lines.push_back(padded_right("", 6) + fmt::format("not ranked, fewer than {} seeds: {}", kFewestSeedsToRank,
                                                          joined(names(comparison, ranking.too_few_seeds))));
      }
    } else if (const std::vector<std::size_t> order = by_mean(table, c); order.size() >= 2) {
      lines.push_back(head + "order of means, not a ranking: " + joined(names(comparison, order)));
    }
  }
  if (lines.empty()) return out;
  if (any_ranked) {
    const std::string n = fewest == most ? fmt::format("n = {}", most) : fmt::format("n = {} to {}", fewest, most);
    out.push_back(
        fmt::format("Ranking by differences paired over common seeds ({}): a place of its own only where the "
                    "95 % t interval excludes zero against all others; {{}} holds what the data do not "
                    "separate. Intervals are not corrected for the number of pairs.",
                    n));
  } else {
    out.push_back(fmt::format("{} {} too few to rank; at least {} are needed (sweep.seeds = 1..5).",
                              counted(most_seeds, "seed"), most_seeds == 1 ? "is" : "are", kFewestSeedsToRank));
  }
  out.insert(out.end(), lines.begin(), lines.end());
  return out;
}

std::string comparison_text(const Comparison& comparison, const TextStyle& style) {
  constexpr std::size_t kWidth = 80;
  constexpr std::size_t kMostNotes = 20;
  std::string out;
  std::string trained;
  std::string explanation;
  for (const int64_t length : comparison.train_lengths)
    trained += fmt::format("{}{}", trained.empty() ? "" : ", ", length);
  if (comparison.columns.empty()) out += fmt::format("none of {} runs has results\n\n", run_count(comparison));
  for (const MetricTable& table : comparison.tables) {
    if (comparison.columns.empty()) break;
    out += wrapped(metric_text(table.metric) + ", mean ± sd over seeds", kWidth, 0);
    if (&table == &comparison.tables.front() && !comparison.protocol.empty()) {
      out += wrapped(fmt::format("trained at {}; {}", trained, protocol_text(comparison.protocol)), kWidth, 0);
    }
    out += "\n" + table_text(comparison, table, style) + "\n";
    const std::vector<std::string> lines = ranking_lines(comparison, table);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool explained = i == 0 && lines[i] == explanation;  // under the table before
      if (!explained) out += wrapped(lines[i], kWidth, i == 0 ? 0 : 6);
    }
    explanation = lines.empty() ? "" : lines.front();
    out += "\n";
  }
  std::size_t shown = 0;
  for (const std::string& line : comparison.notes) {
    if (shown++ == kMostNotes) {
      out += fmt::format("and {} reasons more\n", comparison.notes.size() - kMostNotes);
      break;
    }
    out += wrapped(line, kWidth, 2);
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace ropewalk
