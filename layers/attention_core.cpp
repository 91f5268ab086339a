#include "layers/attention_core.h"

#include <cmath>

#include "framework/ops/index_loss.h"
#include "framework/ops/selected_attention.h"

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

AttentionCore AttentionCore::declare(const Declarations& declarations, const std::string& prefix,
                                     const ArchitectureConfig& config, int64_t score_columns) {
  const AttentionConfig& a = config.attention;
  AttentionCore core;
  core.n_heads = config.model.n_heads;
  core.scale = a.scale_scores ? 1 / std::sqrt(static_cast<double>(score_columns)) : 1.0;
  core.mask = {a.causal, a.window_radius, a.global_tokens};
  if (a.pattern == AttentionPattern::top_k) core.indexer = Indexer::declare(declarations, prefix, config);
  return core;
}

Var AttentionCore::attend(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x, const Heads& q,
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
  return indexer ? attend_selected(pass, block, x, q, k, v, options) : attention(q, k, v, options);
}

Var AttentionCore::attend_selected(ForwardPass& pass, int64_t block, Var x, const Heads& q, const Heads& k,
                                   const Heads& v, const AttentionOptions& options) const {
  const IndexTraining& training = pass.index_training;
  const int64_t keys = k.rows < 0 ? k.x.shape()[1] : k.rows;
  const bool all = training.warmup || indexer->top_k() >= keys;
  const bool learns = training.losses != nullptr;
  if (all && !learns && pass.cache == nullptr) return attention(q, k, v, options);
  const Heads index_keys = indexer->keys(pass, block, x);
  if (all && !learns) return attention(q, k, v, options);
  const IndexOperands index = indexer->operands(pass, *pass.index_rotation, x, index_keys);
  const IndexTeacher teacher{.q = q, .k = k, .options = options};
  const double queries = static_cast<double>(training.sequences) * static_cast<double>(pass.length);
  if (all) {
    training.losses->push_back(index_loss(index.query, index.key, index.weight, teacher, queries));
    return attention(q, k, v, options);
  }
  const SelectedKeys selected = indexer->select(index, mask, {options.first_key, options.key_end});
  if (pass.trace.selected != nullptr) pass.trace.selected->push_back(selected);
  if (learns) {
    training.losses->push_back(index_loss(index.query, index.key, index.weight, teacher, selected, queries));
  }
  return selected_attention(q, k, v, selected, options);
}

}  // namespace ropewalk
