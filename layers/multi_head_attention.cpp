#include "layers/multi_head_attention.h"

#include "framework/ops/head_norm.h"

namespace ropewalk {

MultiHeadAttention MultiHeadAttention::declare(const Declarations& declarations, const std::string& prefix,
                                               const ArchitectureConfig& config, PositionScheme& scheme) {
  const ModelConfig& model = config.model;
  MultiHeadAttention out;
  out.n_heads_ = model.n_heads;
  out.n_kv_heads_ = model.n_kv_heads;
  out.d_head_ = model.d_head;
  out.norm_eps_ = model.norm_eps;

  const int64_t rows = model.n_heads * model.d_head;
  const int64_t kv_rows = model.n_kv_heads * model.d_head;
  out.query_key_value_ = JointLinear::declare(declarations, prefix, model.d_model,
                                              {{"query", rows}, {"key", kv_rows}, {"value", kv_rows, true}}, model.bias,
                                              attention_input_rule(model, rows + 2 * kv_rows));
  if (model.qk_norm) {
    const InitRule one{.kind = InitRule::Kind::one};
    out.query_norm_ = declarations.add(prefix + ".query_norm.weight", {model.d_head}, Role::other, one);
    out.key_norm_ = declarations.add(prefix + ".key_norm.weight", {model.d_head}, Role::other, one);
  }
  scheme.declare_in_block(declarations, prefix);
  out.core_ = AttentionCore::declare(declarations, prefix, config, model.d_head);
  out.output_ = declare_attention_output(declarations, prefix, model);
  return out;
}

Branch MultiHeadAttention::forward(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x) const {
  Tape& tape = pass.tape;
  Var qkv = query_key_value_.forward(x);
  if (query_norm_ >= 0) {
    qkv = head_norm(qkv, tape.parameter(query_norm_), tape.parameter(key_norm_), n_heads_, n_kv_heads_, norm_eps_);
  }
  const Heads query{qkv, 0, n_heads_, d_head_};
  Heads key{qkv, n_heads_ * d_head_, n_kv_heads_, d_head_};
  Heads value{qkv, (n_heads_ + n_kv_heads_) * d_head_, n_kv_heads_, d_head_};
  if (pass.cache != nullptr) {
    key = pass.cache->append(block, 0, key);
    value = pass.cache->append(block, 1, value);
  }
  return {output_, core_.attend(pass, block, scheme, x, query, key, value)};
}

}  // namespace ropewalk
