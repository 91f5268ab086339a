#include "layers/attention_core.h"

#include <cmath>

namespace ropewalk {

Linear declare_attention_output(const Declarations& declarations, const std::string& prefix, const ModelConfig& model) {
  const Linear output = Linear::declare(declarations, prefix + ".output",
                                        {.kind = InitRule::Kind::linear,
                                         .fan_in = model.n_heads * model.d_head,
                                         .fan_out = model.d_model,
                                         .output_projection = true,
                                         .deepnorm_gain = true},
                                        model.bias);
  if (output.bias >= 0) declarations.rules.back() = {.kind = InitRule::Kind::zero};
  return output;
}

AttentionCore AttentionCore::of(const ArchitectureConfig& config, int64_t score_columns) {
  const AttentionConfig& a = config.attention;
  return {.n_heads = config.model.n_heads,
          .scale = a.scale_scores ? 1 / std::sqrt(static_cast<double>(score_columns)) : 1.0,
          .mask = {a.causal, a.window_radius, a.global_tokens}};
}

Var AttentionCore::attend(ForwardPass& pass, int64_t block, const PositionScheme& scheme, const Heads& q,
                          const Heads& k, const Heads& v) const {
  AttentionOptions options{.scale = scale,
                           .mask = mask,
                           .rotary = scheme.rotation(),
                           .first_key = pass.places().first_token,
                           .key_end = pass.lengths};
  scheme.bias({pass.tape, block, pass.cache != nullptr ? &pass.cache->kept_tables(block) : nullptr}, options);
  AttentionStatistics statistics;
  if (pass.trace.entropy != nullptr) {
    statistics = {pass.trace.entropy + block * n_heads, pass.trace.max_logit + block * n_heads};
    options.statistics = &statistics;
  }
  return attention(q, k, v, options);
}

}  // namespace ropewalk
