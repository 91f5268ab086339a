#include "train/flops.h"

#include <algorithm>

#include "layers/attention.h"

namespace ropewalk {

FlopCount count_flops(const Config& config, int64_t length) {
  const ModelConfig& m = config.model;
  const AttentionConfig& a = config.attention;
  const auto d = static_cast<double>(m.d_model);
  const double heads = static_cast<double>(m.n_heads * m.d_head);
  const double ff = static_cast<double>(m.d_ff) * (is_gated(m.activation) ? 3 : 2);
  double visible = 0;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t last = a.causal ? i : length - 1;
    int64_t keys = last + 1;
    if (a.window_radius >= 0 && i >= a.global_tokens) {
      const int64_t first = std::max<int64_t>(0, i - a.window_radius);
      keys = std::min(last, i + a.window_radius) - first + 1 + std::min(first, a.global_tokens);
    }
    visible += static_cast<double>(keys);
  }
  visible /= static_cast<double>(std::max<int64_t>(1, length));
  const auto layers = static_cast<double>(m.n_layers);
  FlopCount out;
  out.linear =
      2 * (layers * (attention_weights(architecture_of(config)) + d * ff) + d * static_cast<double>(m.vocab_size));
  // Scores, and sums of values; the rotated stream of latent attention takes part in the scores only.
  const double stream =
      a.kind == AttentionKind::mla ? static_cast<double>(m.n_heads) * static_cast<double>(a.mla_rope_dims) : 0;
  out.attention = layers * 2 * visible * (2 * heads + stream);
  out.forward = out.linear + out.attention;
  return out;
}

}  // namespace ropewalk
