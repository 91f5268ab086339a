#include <array>
#include <cmath>

#include "framework/ops/attention.h"
#include "framework/ops/relative_bias.h"
#include "framework/ops/rope.h"
#include "layers/positions/alibi.h"
#include "layers/positions/rope.h"
#include "layers/positions/sinusoidal.h"
#include "layers/positions/t5.h"
#include "train/verify_case.h"

namespace ropewalk {
namespace {

constexpr int64_t kFar = int64_t{1} << 30;

CaseResult vector_result(std::vector<double> values) {
  return {.shape = {values.size()}, .values = std::move(values)};
}

void run_sinusoidal_table(ConformanceCase& c) {
  const Shape truth = c.shape("outputs/table", 2);
  const int64_t length = c.integer("length", 1, truth[0]);
  const int64_t d_model = c.integer("d_model", 2, truth[1]);
  c.give(kOutputs, "table", sinusoidal_table(length, d_model, c.real("base"), c.dtype()));
}

/// The slopes in the precision of the run, in which a model uses them.
std::vector<double> rounded_slopes(int64_t heads, DType dtype) {
  std::vector<double> slopes = alibi_slopes(heads);
  if (dtype == DType::f32) {
    for (double& slope : slopes) slope = static_cast<float>(slope);
  }
  return slopes;
}

void run_alibi_slopes(ConformanceCase& c) {
  const int64_t heads = c.integer("heads", 1, c.shape("outputs/slopes", 1)[0]);
  c.give(kOutputs, "slopes", vector_result(rounded_slopes(heads, c.dtype())));
}

/// Settings of t5_bucket: at least one exact bucket in each direction, and the distances beyond it.
struct T5Buckets {
  bool bidirectional;
  int64_t buckets;
  int64_t max_distance;

  T5Buckets(const ConformanceCase& c, const std::string& prefix, bool both)
      : bidirectional(both),
        buckets(c.integer(prefix + "buckets", both ? 4 : 2, kFar)),
        max_distance(c.integer(prefix + "max_distance", (both ? buckets / 2 : buckets) / 2 + 1, kFar)) {}
  int32_t operator()(int64_t offset) const { return t5_bucket(offset, bidirectional, buckets, max_distance); }
};

void run_t5_bucket(ConformanceCase& c) {
  const T5Buckets bucket(c, "", c.flag("bidirectional"));
  CaseResult result{.shape = {static_cast<uint64_t>(c.shape("inputs/offset", 1)[0])}, .values = {}, .integer = true};
  for (const int64_t offset : c.integers("inputs/offset", -kFar, kFar)) result.values.push_back(bucket(offset));
  c.give(kOutputs, "bucket", std::move(result));
}

void run_rope_frequencies(ConformanceCase& c) {
  const int64_t pairs = c.shape("outputs/inverse_frequencies", 1)[0];
  const RopeSettings settings{.dims = 2 * (c.integer("dims", 2, 2 * pairs) / 2),
                              .theta = c.real("base"),
                              .scaling = c.text("scaling"),
                              .factor = c.real("factor"),
                              .original_context = c.integer("original_context", 1, kFar),
                              .beta_fast = c.real("beta_fast"),
                              .beta_slow = c.real("beta_slow"),
                              .low_freq_factor = c.real("low_freq_factor"),
                              .high_freq_factor = c.real("high_freq_factor"),
                              .length = c.integer("length", 0, kFar)};
  RopeFrequencies frequencies = rope_frequencies(settings);
  c.give(kOutputs, "attention_factor", {.shape = {}, .values = {frequencies.attention_factor}});
  c.give(kOutputs, "inverse_frequencies", vector_result(std::move(frequencies.inverse)));
}

void run_rope(ConformanceCase& c) {
  const auto pairing = c.choice<RopePairing>(
      "pairing", {{"interleaved", RopePairing::interleaved}, {"split_half", RopePairing::split_half}});
  const Shape shape = c.shape("inputs/x", 4);
  const int64_t dims = c.integer("dims", 2, shape[3]);
  const RopeFrequencies frequencies = rope_frequencies({.dims = dims, .theta = c.real("base")});
  const RotaryTable table = make_rotary_table(frequencies.inverse, frequencies.attention_factor,
                                              c.integer("start", 0, kFar), shape[2], pairing, c.dtype());
  OperationRun run(c);
  run.finish("y", rope(run.input("x"), table));
}

/// -slope |offset| over the offsets from -(S - 1) to T - 1.
Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, DType dtype) {
  const int64_t n = queries + keys - 1;
  const std::vector<double> slopes = alibi_slopes(heads);
  const Tensor bias = Tensor::zeros({heads, n}, dtype);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t column = 0; column < n; ++column) {
      const auto distance = static_cast<double>(std::abs(column - (keys - 1)));
      bias.set(h * n + column, -slopes[static_cast<std::size_t>(h)] * distance);
    }
  }
  return bias;
}

enum class AttentionPosition : uint8_t { none, alibi, t5, shaw, kerple };

void run_attention(ConformanceCase& c) {
  const auto position = c.choice<AttentionPosition>("position", {{"none", AttentionPosition::none},
                                                                 {"alibi", AttentionPosition::alibi},
                                                                 {"t5", AttentionPosition::t5},
                                                                 {"shaw", AttentionPosition::shaw},
                                                                 {"kerple", AttentionPosition::kerple}});
  const Shape q = c.shape("inputs/q", 4);
  const Shape k = c.shape("inputs/k", 4);
  const int64_t heads = q[1];
  const int64_t queries = q[2];
  const int64_t keys = k[2];
  if (k[0] != q[0] || heads % k[1] != 0 || keys < queries || k[3] != q[3]) {
    c.fail("inputs/k", "of the shape " + k.to_string() + " does not go with queries of the shape " + q.to_string());
  }
  const int64_t dv = c.shape("inputs/v", 4)[3];
  c.limit_work({q[0], heads, queries, keys});
  c.limit_work({q[0], heads, queries, dv});
  const bool causal = c.flag("causal");
  AttentionOptions options{.scale = c.real("scale"),
                           .mask = {.causal = causal,
                                    .window_radius = c.integer("window_radius", -1, kFar),
                                    .global_tokens = c.integer("global_tokens", 0, kFar)}};
  std::vector<int32_t> buckets;  // the tape reads it until its end
  OperationRun run(c);
  const Var query = run.input("q");
  const Var key = run.input("k");
  const Var value = run.input("v", {k[0], k[1], keys, dv});
  switch (position) {
    case AttentionPosition::none:
      break;
    case AttentionPosition::alibi:
      options.offset_bias = run.tape().constant(alibi_bias(heads, queries, keys, c.dtype()));
      break;
    case AttentionPosition::t5: {
      const T5Buckets bucket(c, "t5_", !causal);
      for (int64_t offset = 1 - keys; offset < queries; ++offset) buckets.push_back(bucket(offset));
      options.offset_bias = bucket_bias(run.input("relative_bias", {bucket.buckets, heads}), buckets);
      break;
    }
    case AttentionPosition::shaw:
      options.relative_keys = run.input("relative_keys", {2 * c.integer("shaw_clip", 0, kFar) + 1, q[3]});
      break;
    case AttentionPosition::kerple: {
      const Var amplitude = run.input("amplitude", {heads});
      const Var rate = run.input("rate", {heads});
      options.offset_bias = kerple_bias(amplitude, rate, 1 - keys, queries + keys - 1);
      break;
    }
  }
  run.finish("y", attention(query, key, value, options));
}

constexpr std::array kCases{
    CaseKind{"sinusoidal_table", run_sinusoidal_table},
    CaseKind{"alibi_slopes", run_alibi_slopes},
    CaseKind{"t5_bucket", run_t5_bucket},
    CaseKind{"rope_frequencies", run_rope_frequencies},
    CaseKind{"rope", run_rope},
    CaseKind{"attention", run_attention},
};

}  // namespace

std::span<const CaseKind> position_cases() {
  return kCases;
}

}  // namespace ropewalk
