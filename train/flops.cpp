#include "train/flops.h"

#include <algorithm>

#include "layers/attention.h"
#include "layers/positions/options.h"

namespace ropewalk {
namespace {

/// Keys of a query of a sequence of `length` tokens, in the mean.
struct KeyCount {
  double visible = 0;   ///< that the mask leaves
  double attended = 0;  ///< of these, that it attends to
};

KeyCount count_keys(const AttentionConfig& a, bool causal, int64_t length) {
  const bool selects = a.pattern == AttentionPattern::top_k;
  double visible = 0;
  double attended = 0;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t last = causal ? i : length - 1;
    int64_t keys = last + 1;
    if (a.window_radius >= 0 && i >= a.global_tokens) {
      const int64_t first = std::max<int64_t>(0, i - a.window_radius);
      keys = std::min(last, i + a.window_radius) - first + 1 + std::min(first, a.global_tokens);
    }
    visible += static_cast<double>(keys);
    attended += static_cast<double>(selects ? std::min(keys, a.top_k) : keys);
  }
  const auto n = static_cast<double>(std::max<int64_t>(1, length));
  return {visible / n, attended / n};
}

FlopCount sum_of(double linear, double attention, double indexer) {
  return {.linear = linear, .attention = attention, .indexer = indexer, .forward = linear + attention + indexer};
}

/// The blocks of one stack, cross-attention left out.
FlopCount stack_flops(const Config& config, bool causal, int64_t length) {
  const ModelConfig& m = config.model;
  const AttentionConfig& a = config.attention;
  const auto layers = static_cast<double>(m.n_layers);
  const double heads = static_cast<double>(m.n_heads * m.d_head);
  const double ff = static_cast<double>(m.d_ff) * (is_gated(m.activation) ? 3 : 2);
  // Scores, and sums of values; the rotated stream of latent attention takes part in the scores only.
  const double stream =
      a.kind == AttentionKind::mla ? static_cast<double>(m.n_heads) * static_cast<double>(a.mla_rope_dims) : 0;
  const KeyCount keys = count_keys(a, causal, length);
  PositionUse use = position_use(architecture_of(config));
  use.causal = causal;
  const PositionSchemeInfo* scheme = find_position_scheme(config.position.encoding);
  const double relative =
      scheme != nullptr && scheme->relative_vectors != nullptr ? scheme->relative_vectors(use, keys.attended) : 0;
  const double indexer = a.pattern == AttentionPattern::top_k
                             ? layers * 2 * keys.visible * static_cast<double>(a.index_heads * a.index_dim)
                             : 0;
  return sum_of(2 * layers * (attention_weights(architecture_of(config)) + static_cast<double>(m.d_model) * ff),
                layers * 2 * (keys.attended * (2 * heads + stream) + relative * heads), indexer);
}

double head_flops(const ModelConfig& m) {
  return 2 * static_cast<double>(m.d_model) * static_cast<double>(m.vocab_size);
}

}  // namespace

FlopCount count_flops(const Config& config, int64_t length) {
  const FlopCount stack = stack_flops(config, config.attention.causal, length);
  return sum_of(stack.linear + head_flops(config.model), stack.attention, stack.indexer);
}

FlopCount count_source_flops(const Config& config, const SequenceShape& shape) {
  const ModelConfig& m = config.model;
  const FlopCount stack = stack_flops(config, false, shape.source);
  const double keys_and_values = 2 * static_cast<double>(m.d_model) * static_cast<double>(m.n_kv_heads * m.d_head);
  return sum_of(stack.linear + 2 * static_cast<double>(m.n_layers) * keys_and_values, stack.attention, stack.indexer);
}

FlopCount count_target_flops(const Config& config, const SequenceShape& shape) {
  const ModelConfig& m = config.model;
  const FlopCount alone = count_flops(config, shape.length);
  const auto layers = static_cast<double>(m.n_layers);
  const double heads = static_cast<double>(m.n_heads * m.d_head);
  // Query and output of the cross-attention, which sees the whole source.
  return sum_of(alone.linear + 2 * layers * 2 * static_cast<double>(m.d_model) * heads,
                alone.attention + layers * 2 * static_cast<double>(shape.source) * 2 * heads, alone.indexer);
}

FlopCount count_flops(const Config& config, const SequenceShape& shape) {
  if (shape.source == 0) return count_flops(config, shape.length);
  const FlopCount source = count_source_flops(config, shape);
  const FlopCount target = count_target_flops(config, shape);
  const double share = static_cast<double>(shape.source) / static_cast<double>(shape.positions());
  return sum_of(share * source.linear + (1 - share) * target.linear,
                share * source.attention + (1 - share) * target.attention,
                share * source.indexer + (1 - share) * target.indexer);
}

}  // namespace ropewalk
