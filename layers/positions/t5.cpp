#include "layers/positions/t5.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "framework/ops/relative_bias.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

int32_t t5_bucket(int64_t offset, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t n = -offset;
  int64_t first = 0;
  if (bidirectional) {
    buckets /= 2;
    if (n < 0) first = buckets;
    n = std::abs(n);
  } else {
    n = std::max<int64_t>(n, 0);
  }
  const int64_t exact = buckets / 2;
  if (n < exact) return static_cast<int32_t>(first + n);
  // The greatest k with exact (max_distance / exact)^(k / wide) <= n, in logarithms.
  const int64_t wide = buckets - exact;
  const double ratio = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const auto k = static_cast<int64_t>(ratio * static_cast<double>(wide));
  return static_cast<int32_t>(first + std::min(buckets - 1, exact + k));
}

namespace {

/// A learned scalar for each bucket of offsets and head, added to the scores; one table for all layers.
class T5 : public PositionScheme {
 public:
  T5(const PositionConfig& config, const PositionSizes& sizes)
      : buckets_(config.integer("t5_buckets")), max_distance_(config.integer("t5_max_distance")), sizes_(sizes) {}

  void declare(const Declarations& declarations) override {
    table_ = declarations.add("relative_bias.weight", {buckets_, sizes_.n_heads}, Role::other,
                              {.kind = InitRule::Kind::embedding});
  }
  void prepare(const PassPositions& positions) override {
    length_ = positions.reach;
    if (length_ <= greatest_length_) return;
    greatest_length_ = table_length(length_);
    bucket_of_offset_.clear();
    for (int64_t offset = 1 - greatest_length_; offset < greatest_length_; ++offset) {
      bucket_of_offset_.push_back(t5_bucket(offset, !sizes_.causal, buckets_, max_distance_));
    }
  }
  void bias(const BlockPass& pass, AttentionOptions& options) const override {
    const std::span<const int32_t> buckets(bucket_of_offset_);
    options.offset_bias =
        bucket_bias(pass.tape.parameter(table_), buckets.subspan(greatest_length_ - length_, 2 * length_ - 1));
    options.offset_origin = length_ - 1;
  }

 private:
  int64_t buckets_;
  int64_t max_distance_;
  PositionSizes sizes_;
  int32_t table_ = -1;
  int64_t length_ = 1;
  int64_t greatest_length_ = 0;            ///< that bucket_of_offset_ serves
  std::vector<int32_t> bucket_of_offset_;  ///< from 1 - greatest_length_ on
};

PositionFindings check(const PositionUse& use) {
  const int64_t buckets = use.position.integer("t5_buckets");
  const int64_t reach = use.position.integer("t5_max_distance");
  const int64_t exact = (use.causal ? buckets : buckets / 2) / 2;
  if (exact < 1) {
    return {{.keys = {"position.t5_buckets", "attention.causal"},
             .message = fmt::format("position.t5_buckets = {} is too few with attention.causal = {}; at least {}",
                                    buckets, use.causal, use.causal ? 2 : 4)}};
  }
  if (reach <= exact) {
    return {
        {.keys = {"position.t5_max_distance", "position.t5_buckets", "attention.causal"},
         .message = fmt::format("position.t5_max_distance = {} must exceed {}, the distances with a bucket of their "
                                "own at position.t5_buckets = {} and attention.causal = {}",
                                reach, exact, buckets, use.causal)}};
  }
  return warn_beyond_training(use, "t5_max_distance");
}

}  // namespace

PositionSchemeRow t5_scheme() {
  return {.info = {.name = "t5",
                   .summary = "a learned bias for each bucket of offsets and head (Raffel et al. 2020)",
                   .options = {{.key = "t5_buckets",
                                .default_value = int64_t{32},
                                .help = "buckets of offsets; half of them for each sign when not causal",
                                .minimum = 4,
                                .maximum = 65536},
                               {.key = "t5_max_distance",
                                .default_value = int64_t{128},
                                .help = "from this distance on all offsets share a bucket",
                                .minimum = 2,
                                .maximum = 1 << 30}},
                   .check = check,
                   .numbers_an_offset = [](const PositionUse& use) { return static_cast<double>(use.model.n_heads); }},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<T5>(config, sizes);
          }};
}

}  // namespace ropewalk
