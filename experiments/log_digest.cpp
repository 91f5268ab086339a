#include "experiments/log_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "train/read_log.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kMostBuckets = 240;      // more columns than this are narrower than a pixel on a phone
constexpr std::size_t kMostHeadBuckets = 60;   // steps to choose from
constexpr std::size_t kWidestRow = 1U << 20U;  // of a log that is not made up

/// The usual distance of two logged rows, in steps. The first and last row of a run are logged out of turn.
int64_t usual_gap(const std::vector<int64_t>& steps, int64_t configured) {
  constexpr std::size_t kEnough = 5;
  if (steps.size() < kEnough && configured > 0) return configured;
  std::vector<int64_t> gaps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i] > steps[i - 1]) gaps.push_back(steps[i] - steps[i - 1]);
  }
  if (gaps.empty()) return 1;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return *middle;
}

std::size_t buckets_for(std::size_t values, std::size_t row_size, std::size_t most) {
  return std::clamp(values / std::max<std::size_t>(row_size, 1), std::size_t{4}, most);
}

void digest_training(const TrainTable& train, std::size_t most, int64_t cadence, LogDigest& out) {
  out.train = BucketedRows(LogDigest::kTrainColumns, usual_gap(train.step, cadence), most);
  for (std::size_t row = 0; row < train.step.size(); ++row) {
    const std::array<float, LogDigest::kTrainColumns> values = {train.loss[row], train.lr[row], train.grad_norm[row],
                                                                static_cast<float>(train.tokens[row])};
    out.train.add(train.step[row], values);
  }
}

void digest_evaluation(const LogContents& log, LogDigest& out) {
  const EvalTable& eval = log.tables.eval;
  if (eval.step.empty()) return;
  out.eval_step = eval.step.back();
  const std::size_t size = out.eval_lengths.size() * out.positions.size();
  out.loss_by_position.assign(eval.loss_by_position.end() - static_cast<std::ptrdiff_t>(size),
                              eval.loss_by_position.end());
}

/// Puts the rows of the groups that are read in slabs where they belong.
class SlabDigest {
 public:
  SlabDigest(const DigestBudget& budget, const LogCadence& cadence, LogDigest& out)
      : budget_(budget), cadence_(cadence), out_(out) {}

  void visit(const LogContents& log, const LogRows& rows) {
    if (!begun_) begin(log);
    begun_ = true;
    if (rows.count == 0) return;
    const std::size_t row_size = rows.values.size() / rows.count;
    if (row_size > kWidestRow) throw LogError(fmt::format("'{}' has rows of {} values", log.path, row_size));
    const auto each = [&](const std::vector<int64_t>& steps, auto&& f) {
      for (std::size_t i = 0; i < rows.count; ++i) {
        f(steps[rows.first + i], rows.values.subspan(i * row_size, row_size));
      }
    };
    if (rows.group == "layers") {
      for (std::size_t q = 0; q < kLayerQuantities.size(); ++q) {
        if (rows.column != kLayerQuantities[q]) continue;
        each(log.tables.layers.step, [&](int64_t step, std::span<const float> row) {
          out_.layers[q].add(step, row);
          if (q == 0) add_ratio(step, row);
        });
      }
    } else if (rows.group == "residual" && rows.column == "grad_norm") {
      each(log.tables.residual.step,
           [&](int64_t step, std::span<const float> row) { out_.residual_grad_norm.add(step, row); });
    } else if (rows.group == "attention") {
      const bool entropy = rows.column == "entropy";
      each(log.tables.attention.step,
           [&](int64_t step, std::span<const float> row) { add_attention(step, row, entropy); });
    }
  }

 private:
  void begin(const LogContents& log) {
    const auto layers = static_cast<std::size_t>(log.schema.n_layers);
    const std::size_t kinds = log.schema.layer_kinds.size();
    const int64_t gap = usual_gap(log.tables.layers.step, cadence_.layers);
    const std::size_t buckets = buckets_for(budget_.layer_values, layers * kinds, kMostBuckets);
    for (BucketedRows& rows : out_.layers) rows = BucketedRows(layers * kinds, gap, buckets);
    out_.log_ratio = BucketedRows(kinds, gap, buckets);
    out_.residual_grad_norm = BucketedRows(layers + 1, usual_gap(log.tables.residual.step, cadence_.layers),
                                           buckets_for(budget_.depth_values, layers + 1, kMostHeadBuckets));
    const std::size_t heads = layers * static_cast<std::size_t>(log.schema.n_heads);
    const int64_t looks = usual_gap(log.tables.attention.step, cadence_.attention);
    out_.entropy = out_.max_logit =
        BucketedRows(heads, looks, buckets_for(budget_.head_values, heads, kMostHeadBuckets));
    out_.mean_entropy = out_.greatest_logit = BucketedRows(1, looks, std::min(budget_.train_buckets, kMostBuckets));
  }

  void add_ratio(int64_t step, std::span<const float> row) {
    const std::size_t kinds = out_.log_ratio.row_size();
    ratios_.resize(kinds);
    const std::span<const float> last = row.last(kinds);
    for (std::size_t kind = 0; kind < kinds; ++kind) ratios_[kind] = std::log(last[kind] / row[kind]);
    out_.log_ratio.add(step, ratios_);
  }

  void add_attention(int64_t step, std::span<const float> row, bool entropy) {
    (entropy ? out_.entropy : out_.max_logit).add(step, row);
    float whole = entropy ? 0 : -std::numeric_limits<float>::infinity();
    for (const float value : row) {
      if (std::isnan(value)) whole = kNan;
      whole = entropy             ? whole + value / static_cast<float>(row.size())
              : std::isnan(whole) ? kNan
                                  : std::max(whole, value);
    }
    (entropy ? out_.mean_entropy : out_.greatest_logit).add(step, std::span<const float>(&whole, 1));
  }

  DigestBudget budget_;
  LogCadence cadence_;
  LogDigest& out_;
  bool begun_ = false;
  std::vector<float> ratios_;
};

}  // namespace

DigestBudget digest_budget(std::size_t runs) {
  const DigestBudget alone;
  const std::size_t n = std::max<std::size_t>(runs, 1);
  // Bytes of the page by value, in base64: 16 a bucket of each of three training columns, 5.3 a gradient's cell of each
  // of three quantities, 2.7 for residuals, 10.7 for heads.
  return {std::clamp<std::size_t>(300'000 / (53 * n), 40, alone.train_buckets),
          std::min<std::size_t>(1'000'000 / (16 * n), alone.layer_values),
          std::min<std::size_t>(60'000 / (3 * n), alone.depth_values),
          std::min<std::size_t>(160'000 / (11 * n), alone.head_values)};
}

LogDigest digest_log(const std::string& path, const DigestBudget& budget, const LogCadence& cadence) {
  LogDigest out;
  SlabDigest slabs(budget, cadence, out);
  const LogContents log =
      read_log_in_slabs(path, LogDamage::left_out,
                        [&](const LogContents& contents, const LogRows& rows) { slabs.visit(contents, rows); });
  out.n_layers = log.schema.n_layers;
  out.n_heads = log.schema.n_heads;
  for (const std::string& kind : log.schema.layer_kinds) out.kinds.push_back(printable(kind));
  out.positions = log.schema.positions;
  out.eval_lengths = log.schema.eval_lengths;
  digest_training(log.tables.train, budget.train_buckets, cadence.train, out);
  digest_evaluation(log, out);
  out.damage = log.damage;
  return out;
}

void align(const std::vector<LogDigest*>& digests) {
  const auto align_rows = [&](auto&& rows_of) {
    int64_t widest = 1;
    for (LogDigest* digest : digests) widest = std::max(widest, rows_of(*digest).width());
    for (LogDigest* digest : digests) {
      if (rows_of(*digest).size() > 0) rows_of(*digest).widen(widest);
    }
  };
  align_rows([](LogDigest& d) -> BucketedRows& { return d.train; });
  for (std::size_t q = 0; q < kLayerQuantities.size(); ++q) {
    align_rows([q](LogDigest& d) -> BucketedRows& { return d.layers[q]; });
  }
  align_rows([](LogDigest& d) -> BucketedRows& { return d.log_ratio; });
  align_rows([](LogDigest& d) -> BucketedRows& { return d.residual_grad_norm; });
  align_rows([](LogDigest& d) -> BucketedRows& { return d.entropy; });
  align_rows([](LogDigest& d) -> BucketedRows& { return d.max_logit; });
  align_rows([](LogDigest& d) -> BucketedRows& { return d.mean_entropy; });
  align_rows([](LogDigest& d) -> BucketedRows& { return d.greatest_logit; });
}

}  // namespace ropewalk
