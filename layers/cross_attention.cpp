#include "layers/cross_attention.h"

#include <cmath>

#include "framework/error.h"
#include "framework/ops/attention.h"
#include "framework/ops/head_norm.h"
#include "framework/ops/heads.h"
#include "framework/ops/norm.h"
#include "layers/attention_core.h"

namespace ropewalk {

CrossAttention CrossAttention::declare(const Declarations& declarations, const std::string& prefix,
                                       const ArchitectureConfig& config) {
  const ModelConfig& model = config.model;
  CrossAttention out;
  out.n_heads_ = model.n_heads;
  out.n_kv_heads_ = model.n_kv_heads;
  out.d_head_ = model.d_head;
  out.norm_eps_ = model.norm_eps;
  out.scale_ = config.attention.scale_scores ? 1 / std::sqrt(static_cast<double>(model.d_head)) : 1.0;
  const int64_t rows = model.n_heads * model.d_head;
  const int64_t kv_rows = model.n_kv_heads * model.d_head;
  const InitRule rule = attention_input_rule(model, rows + 2 * kv_rows);
  out.query_ = JointLinear::declare(declarations, prefix, model.d_model, {{"query", rows}}, model.bias, rule);
  out.key_value_ = JointLinear::declare(declarations, prefix, model.d_model,
                                        {{"key", kv_rows}, {"value", kv_rows, true}}, model.bias, rule);
  if (model.qk_norm) {
    const InitRule one{.kind = InitRule::Kind::one};
    out.query_norm_ = declarations.add(prefix + ".query_norm.weight", {model.d_head}, Role::other, one);
    out.key_norm_ = declarations.add(prefix + ".key_norm.weight", {model.d_head}, Role::other, one);
  }
  out.output_ = declare_attention_output(declarations, prefix, model);
  return out;
}

Var CrossAttention::keys_and_values(ForwardPass& pass, int64_t block) const {
  Tape& tape = pass.tape;
  if (pass.cache != nullptr && pass.cache->has_memory(block)) return tape.constant(pass.cache->memory(block));
  require(static_cast<bool>(pass.memory), "a decoder with cross-attention needs what the encoder made of the source");
  Var kv = key_value_.forward(pass.memory);
  if (key_norm_ >= 0) {
    const Var weight = tape.parameter(key_norm_);
    kv = head_norm(kv, weight, weight, 0, n_kv_heads_, norm_eps_);
  }
  if (pass.cache != nullptr) pass.cache->keep_memory(block, kv.value());
  return kv;
}

Branch CrossAttention::forward(ForwardPass& pass, int64_t block, Var x) const {
  Var query = query_.forward(x);
  if (query_norm_ >= 0) query = rms_norm(query, pass.tape.parameter(query_norm_), norm_eps_);
  const Var kv = keys_and_values(pass, block);
  const AttentionOptions options{.scale = scale_, .mask = {.causal = false}, .key_end = pass.memory_lengths};
  return {output_, attention(Heads{query, 0, n_heads_, d_head_}, Heads{kv, 0, n_kv_heads_, d_head_},
                             Heads{kv, n_kv_heads_ * d_head_, n_kv_heads_, d_head_}, options)};
}

}  // namespace ropewalk
