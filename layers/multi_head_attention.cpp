#include "layers/multi_head_attention.h"

#include "framework/ops/head_norm.h"

namespace ropewalk {

MultiHeadAttention MultiHeadAttention::declare(const Declarations& declarations, const std::string& prefix,
                                               const ArchitectureConfig& config, PositionScheme& scheme) {
  const ModelConfig& model = config.model;
  MultiHeadAttention out;
  out.n_heads_ = model.n_heads;
  out.n_kv_heads_ = model.n_kv_heads;
  out.d_model_ = model.d_model;
  out.d_head_ = model.d_head;
  out.norm_eps_ = model.norm_eps;
  out.core_ = AttentionCore::of(config, model.d_head);

  // Fan-out of the three together: torch initializes them as one matrix.
  const int64_t rows = (model.n_heads + 2 * model.n_kv_heads) * model.d_head;
  std::vector<Parameter> weights;
  std::vector<Parameter> biases;
  for (const auto& [name, heads] :
       {std::pair{"query", model.n_heads}, {"key", model.n_kv_heads}, {"value", model.n_kv_heads}}) {
    const std::string full = prefix + "." + name;
    const bool joint = model.init == Init::torch;
    declarations.rules.push_back({.kind = InitRule::Kind::linear,
                                  .fan_in = model.d_model,
                                  .fan_out = joint ? rows : heads * model.d_head,
                                  .attention_input = true,
                                  .deepnorm_gain = std::string_view(name) == "value"});
    weights.push_back({.name = full + ".weight", .shape = {heads * model.d_head, model.d_model}, .role = Role::weight});
    biases.push_back({.name = full + ".bias", .shape = {heads * model.d_head}});
  }
  out.weights_ = declarations.add_adjacent(std::move(weights));
  if (model.bias) {
    for (int i = 0; i < 3; ++i) declarations.rules.push_back({.kind = InitRule::Kind::zero});
    out.biases_ = declarations.add_adjacent(std::move(biases));
  }
  if (model.qk_norm) {
    const InitRule one{.kind = InitRule::Kind::one};
    out.query_norm_ = declarations.add(prefix + ".query_norm.weight", {model.d_head}, Role::other, one);
    out.key_norm_ = declarations.add(prefix + ".key_norm.weight", {model.d_head}, Role::other, one);
  }
  scheme.declare_in_block(declarations, prefix);
  out.output_ = declare_attention_output(declarations, prefix, model);
  return out;
}

Branch MultiHeadAttention::forward(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x) const {
  Tape& tape = pass.tape;
  const int64_t rows = (n_heads_ + 2 * n_kv_heads_) * d_head_;
  const Var weight = tape.parameter(weights_, {rows, d_model_});
  const Var bias = biases_.count > 0 ? tape.parameter(biases_, {rows}) : Var{};
  Var qkv = linear(x, weight, bias);
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
  return {output_, core_.attend(pass, block, scheme, query, key, value)};
}

}  // namespace ropewalk
