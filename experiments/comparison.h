#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run_result.h"
#include "experiments/statistics.h"
#include "experiments/terminal.h"

namespace ropewalk {

/// Fewest seeds from which differences are told from chance.
inline constexpr std::size_t kFewestSeedsToRank = 3;

/// Comparison::protocol of runs that were not evaluated in one way: their numbers do not compare.
inline constexpr const char* kSeveralProtocols = "several";

enum class Metric : uint8_t { loss, exact_match, accuracy };

/// One variant at one length: what each seed came to. Runs that diverged or did not finish are not in it.
struct ComparisonCell {
  std::map<int64_t, double> by_seed;
  std::string missing;  ///< why there is no value although runs finished: "beyond its positions", "not evaluable"

  std::vector<double> values() const;  ///< in the order of the seeds
  double mean() const;
  double deviation() const;       ///< over seeds; NaN for fewer than two
  MeanInterval interval() const;  ///< 95 % t interval of the mean over seeds
};

struct ComparisonColumn {
  double multiple = 0;           ///< evaluated length over the length trained at
  std::vector<int64_t> lengths;  ///< one, unless variants were trained at different lengths
};

struct ComparedVariant {
  std::string name;
  std::size_t runs = 0, counted = 0, diverged = 0, failed = 0;
  std::size_t unfinished = 0;  ///< waiting, running, interrupted or killed
};

struct MetricTable {
  Metric metric = Metric::loss;
  std::vector<std::vector<ComparisonCell>> cells;  ///< [variant][column]
};

/// The runs of a sweep, gathered by variant and by how many times longer than in training the evaluation was.
struct Comparison {
  std::string protocol;                ///< "" where nothing is evaluated; kSeveralProtocols where runs differ
  std::vector<int64_t> train_lengths;  ///< all that occur
  std::vector<ComparisonColumn> columns;
  std::vector<ComparedVariant> variants;  ///< in the order of the runs
  std::vector<MetricTable> tables;        ///< loss; for tasks also exact match and accuracy
  std::vector<std::string> notes;         ///< which runs diverged or failed, and how; one line a reason
};

Comparison compare(std::span<const RunResult> runs);

/// What the data separate at one column: variant `a` is told from `b` if the 95 % t interval of their difference,
/// paired over common seeds, excludes zero.
struct Ranking {
  /// Best first, by mean: every variant of a tier is told from every variant of the later ones.
  std::vector<std::vector<std::size_t>> tiers;
  /// (better, worse) pairs inside a tier that are told apart all the same.
  std::vector<std::pair<std::size_t, std::size_t>> told_apart;
  /// Variants with values from too few seeds, best mean first.
  std::vector<std::size_t> too_few_seeds;
  std::size_t fewest_pairs = 0, most_pairs = 0;  ///< common seeds, over the pairs of ranked variants
};

Ranking rank(const MetricTable& table, std::size_t column);

/// Are there two variants with enough seeds to be ranked, at some column?
bool can_rank(const Comparison& comparison, const MetricTable& table);

/// The difference of variants a and b at a column, a minus b, paired over the seeds that finished in both, with its 95
/// % t interval.
MeanInterval difference(const MetricTable& table, std::size_t a, std::size_t b, std::size_t column);

/// Is less of it better?
bool less_is_better(Metric metric);

/// "1x", "1.5x"
std::string multiple_text(double multiple);
/// "1.234 ±0.012"; decimals by size; without a spread for one seed; the reason where there is no value.
std::string cell_text(const ComparisonCell& cell);
/// "1.234" or "-0.012": as many decimals as fit a number of the size of `scale`.
std::string value_text(double value, double scale);
/// "held-out loss"
std::string metric_name(Metric metric);
/// "nats a token"; "" for a share.
std::string metric_unit(Metric metric);
/// "held-out loss (nats a token, less is better)"
std::string metric_text(Metric metric);
/// What a protocol scores and what follows for reading the numbers; "" for an unknown one.
std::string protocol_text(const std::string& protocol);
/// How the ranking is to be read; then which variants the data separate, a line or more a column (or, with too few
/// seeds, the order of means, called that).
std::vector<std::string> ranking_lines(const Comparison& comparison, const MetricTable& table);

/// Tables, rankings and notes for a terminal.
std::string comparison_text(const Comparison& comparison, const TextStyle& style);

}  // namespace ropewalk
