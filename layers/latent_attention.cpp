#include "layers/latent_attention.h"

#include "framework/ops/norm.h"

namespace ropewalk {

LatentAttention LatentAttention::declare(const Declarations& declarations, const std::string& prefix,
                                         const ArchitectureConfig& config, PositionScheme& scheme) {
  const ModelConfig& model = config.model;
  const AttentionConfig& a = config.attention;
  LatentAttention out;
  out.n_heads_ = model.n_heads;
  out.d_head_ = model.d_head;
  out.kv_rank_ = a.mla_kv_rank;
  out.rope_dims_ = a.mla_rope_dims;
  out.norm_eps_ = model.norm_eps;
  const auto linear = [&](const char* name, int64_t in, int64_t rows) {
    const InitRule rule{.kind = InitRule::Kind::linear, .fan_in = in, .fan_out = rows};
    return Linear::declare(declarations, prefix + "." + name, rule, false);
  };
  const auto joint = [&](int64_t in, std::initializer_list<JointLinear::Part> parts) {
    return JointLinear::declare(declarations, prefix, in, parts, false, {.kind = InitRule::Kind::linear});
  };
  const int64_t heads = model.n_heads * model.d_head;
  const int64_t query_in = a.mla_q_rank > 0 ? a.mla_q_rank : model.d_model;
  if (a.mla_q_rank > 0) out.query_down_ = linear("query_down", model.d_model, a.mla_q_rank);
  out.query_ = joint(query_in, {{"query_up", heads}, {"query_rope", model.n_heads * a.mla_rope_dims}});
  out.kv_down_ = linear("kv_down", model.d_model, a.mla_kv_rank);
  out.key_value_ = joint(a.mla_kv_rank, {{"key_up", heads}, {"value_up", heads, true}});
  if (a.mla_rope_dims > 0) out.key_rope_ = linear("key_rope", model.d_model, a.mla_rope_dims);
  if (a.mla_latent_norm) {
    const InitRule one{.kind = InitRule::Kind::one};
    out.kv_latent_norm_ = declarations.add(prefix + ".kv_latent_norm.weight", {a.mla_kv_rank}, Role::other, one);
    if (a.mla_q_rank > 0) {
      out.query_latent_norm_ = declarations.add(prefix + ".query_latent_norm.weight", {a.mla_q_rank}, Role::other, one);
    }
  }
  scheme.declare_in_block(declarations, prefix);
  out.core_ = AttentionCore::declare(declarations, prefix, config, model.d_head + a.mla_rope_dims);
  out.output_ = declare_attention_output(declarations, prefix, model);
  return out;
}

Var LatentAttention::latent_norm(Var latent, int32_t weight) const {
  return weight < 0 ? latent : rms_norm(latent, latent.tape->parameter(weight), norm_eps_);
}

Branch LatentAttention::forward(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x) const {
  const int64_t heads = n_heads_ * d_head_;
  const Var query_latent = query_down_.weight < 0 ? x : latent_norm(query_down_.forward(x), query_latent_norm_);
  const Var query = query_.forward(query_latent);
  const Var latent = latent_norm(kv_down_.forward(x), kv_latent_norm_);
  const Var key_rope = rope_dims_ > 0 ? key_rope_.forward(x) : Var{};
  const Heads content{query, 0, n_heads_, d_head_};
  const Heads position{query, heads, n_heads_, rope_dims_};
  if (pass.cache != nullptr) return {output_, absorbed(pass, block, scheme, x, content, position, latent, key_rope)};

  const Var key_value = key_value_.forward(latent);
  Heads q = content;
  Heads k{key_value, 0, n_heads_, d_head_};
  const Heads v{key_value, heads, n_heads_, d_head_};
  if (rope_dims_ > 0) {
    // The rotated columns stand first, where a rotary table turns them.
    const int64_t width = rope_dims_ + d_head_;
    q = {join_heads(position, content, n_heads_), 0, n_heads_, width};
    k = {join_heads(Heads{key_rope, 0, 1, rope_dims_}, k, n_heads_), 0, n_heads_, width};
  }
  return {output_, core_.attend(pass, block, scheme, x, q, k, v)};
}

Var LatentAttention::absorbed(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x,
                              const Heads& content, const Heads& position, Var latent, Var key_rope) const {
  const Var key_up = pass.tape.parameter(key_value_.weights.first);
  const Var value_up = pass.tape.parameter(key_value_.weights.first + 1);
  const int64_t width = rope_dims_ + kv_rank_;
  Heads q{head_linear(content, key_up, false), 0, n_heads_, kv_rank_};
  Heads entry{latent, 0, 1, kv_rank_};
  if (rope_dims_ > 0) {
    q = {join_heads(position, q, n_heads_), 0, n_heads_, width};
    entry = {join_heads(Heads{key_rope, 0, 1, rope_dims_}, entry, 1), 0, 1, width};
  }
  const Heads k = pass.cache->append(block, 0, entry);
  const Heads v{k.x, rope_dims_, 1, kv_rank_, k.rows};
  const Var weighted = core_.attend(pass, block, scheme, x, q, k, v);
  return head_linear(Heads{weighted, 0, n_heads_, kv_rank_}, value_up, true);
}

}  // namespace ropewalk
