#include "layers/indexer.h"

#include <cmath>

#include "framework/ops/elementwise.h"
#include "framework/ops/hadamard.h"
#include "framework/ops/norm.h"
#include "framework/ops/rotate_heads.h"

namespace ropewalk {

Indexer Indexer::declare(const Declarations& declarations, const std::string& prefix,
                         const ArchitectureConfig& config) {
  const ModelConfig& model = config.model;
  const AttentionConfig& a = config.attention;
  Indexer out;
  out.top_k_ = a.top_k;
  out.heads_ = a.index_heads;
  out.d_ = a.index_dim;
  out.norm_eps_ = model.norm_eps;
  out.precision_ = a.index_precision;
  out.hadamard_ = a.index_hadamard;
  const auto linear = [&](const char* name, int64_t rows) {
    const InitRule rule{.kind = InitRule::Kind::linear, .fan_in = model.d_model, .fan_out = rows};
    return Linear::declare(declarations, prefix + "." + name, rule, false);
  };
  out.query_ = linear("index_query", a.index_heads * a.index_dim);
  out.key_ = linear("index_key", a.index_dim);
  out.key_norm_weight_ =
      declarations.add(prefix + ".index_key_norm.weight", {a.index_dim}, Role::other, {.kind = InitRule::Kind::one});
  if (model.bias) {
    out.key_norm_bias_ =
        declarations.add(prefix + ".index_key_norm.bias", {a.index_dim}, Role::other, {.kind = InitRule::Kind::zero});
  }
  out.weight_ = linear("index_weight", a.index_heads);
  return out;
}

Heads Indexer::keys(ForwardPass& pass, int64_t block, Var x) const {
  const Var bias = key_norm_bias_ >= 0 ? pass.tape.parameter(key_norm_bias_) : Var{};
  const Var key = layer_norm(key_.forward(detached(pass, x)), pass.tape.parameter(key_norm_weight_), bias, norm_eps_);
  const Heads keys{key, 0, 1, d_};
  return pass.cache != nullptr ? pass.cache->append(block, pass.cache->tables_a_layer() - 1, keys) : keys;
}

IndexOperands Indexer::operands(ForwardPass& pass, const RotaryTable& table, Var x, const Heads& keys) const {
  const Var input = detached(pass, x);
  const TokenPlaces places = pass.places();
  const double factor = 1 / std::sqrt(static_cast<double>(heads_ * d_));
  return {.query = rotate_heads(Heads{query_.forward(input), 0, heads_, d_}, table, RotarySide::queries, places),
          .key = rotate_heads(keys, table, RotarySide::keys, {0, places.first_token}),
          .weight = scale(weight_.forward(input), factor)};
}

SelectedKeys Indexer::select(const IndexOperands& operands, const AttentionMask& mask,
                             const SequenceKeys& sequences) const {
  // Products stay what they are; only their quantization loses less. Without one the rotation would add rounding alone.
  const bool turns = hadamard_ && precision_ == IndexPrecision::int8;
  const auto spread = [&](Var x) { return turns ? hadamard(x, d_) : x; };
  return select_top_k(spread(operands.query), spread(operands.key), operands.weight, top_k_, mask, precision_,
                      sequences);
}

std::unique_ptr<PositionScheme> index_rotation(const ArchitectureConfig& config, DType dtype) {
  PositionConfig rope = config.position;
  rope.encoding = "rope";
  rope.options["rope_dims"] = config.attention.index_dim / 2;
  rope.options["rope_pairing"] = std::string("split_half");
  // A temperature of the attention's softmax; the indexer has none.
  rope.options["rope_attention_factor"] = 1.0;
  return make_position_scheme(rope, {.n_heads = config.attention.index_heads,
                                     .d_model = config.model.d_model,
                                     .d_head = config.attention.index_dim,
                                     .causal = config.attention.causal,
                                     .dtype = dtype});
}

bool is_index_parameter(const std::string& name) {
  return name.find(".attention.index_") != std::string::npos;
}

double index_weights(const ArchitectureConfig& config) {
  const AttentionConfig& a = config.attention;
  if (a.pattern != AttentionPattern::top_k) return 0;
  const auto heads = static_cast<double>(a.index_heads);
  const auto d = static_cast<double>(a.index_dim);
  return static_cast<double>(config.model.d_model) * (heads * d + d + heads);
}

}  // namespace ropewalk
