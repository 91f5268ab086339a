#include "layers/transformer.h"

#include <cmath>

#include "framework/error.h"
#include "framework/ops/embedding.h"
#include "framework/ops/linear_cross_entropy.h"
#include "layers/initialize.h"
#include "layers/positions/decoupled.h"

namespace ropewalk {

ArchitectureConfig resolved(ArchitectureConfig config) {
  ModelConfig& m = config.model;
  const bool heads_divide = m.d_head == 0;
  derive_sizes(m);
  require(m.n_heads > 0 && m.n_kv_heads > 0, "model.n_heads = {} and model.n_kv_heads = {} must be positive", m.n_heads,
          m.n_kv_heads);
  require(!heads_divide || m.d_model % m.n_heads == 0, "model.d_model = {} is not divisible by model.n_heads = {}",
          m.d_model, m.n_heads);
  require(m.n_heads % m.n_kv_heads == 0, "model.n_heads = {} is not divisible by model.n_kv_heads = {}", m.n_heads,
          m.n_kv_heads);
  require(m.vocab_size > 0, "model.vocab_size = {}: give the size of the vocabulary", m.vocab_size);
  for (const PositionFinding& finding : check_attention(config)) require(finding.warning, "{}", finding.message);
  derive_position_options(config.position, rotary_width(m, config.attention));
  for (const PositionFinding& finding : check_position(position_use(config))) {
    require(finding.warning, "{}", finding.message);
  }
  return config;
}

namespace {

std::unique_ptr<PositionScheme> make_scheme(const ArchitectureConfig& config, DType dtype) {
  const PositionSizes sizes{.n_heads = config.model.n_heads,
                            .d_model = config.model.d_model,
                            .d_head = rotary_width(config.model, config.attention),
                            .causal = config.attention.causal,
                            .dtype = dtype};
  auto scheme = make_position_scheme(config.position, sizes);
  const bool stream = config.attention.kind == AttentionKind::mla && config.attention.mla_rope_dims > 0;
  if (!stream || config.position.encoding == "rope") return scheme;
  PositionConfig rope = config.position;
  rope.encoding = "rope";
  return with_rotation_of(std::move(scheme), make_position_scheme(rope, sizes));
}

}  // namespace

Transformer::Transformer(const ArchitectureConfig& config, DType dtype) : config_(resolved(config)), dtype_(dtype) {
  const ModelConfig& model = config_.model;
  scheme_ = make_scheme(config_, dtype);
  const Declarations declarations{parameters_, rules_};
  const InitRule table{.kind = InitRule::Kind::embedding};
  token_embedding_ = declarations.add("token_embedding.weight", {model.vocab_size, model.d_model}, Role::weight, table);
  scheme_->declare(declarations);
  for (int64_t i = 0; i < model.n_layers; ++i) blocks_.push_back(Block::declare(declarations, i, config_, *scheme_));
  has_final_norm_ = model.norm_placement == NormPlacement::pre || model.norm_placement == NormPlacement::sandwich;
  if (has_final_norm_) final_norm_ = NormLayer::declare(declarations, "final_norm", model);
  if (!model.tie_embeddings) {
    const InitRule rule{.kind = InitRule::Kind::linear, .fan_in = model.d_model, .fan_out = model.vocab_size};
    lm_head_ = declarations.add("lm_head.weight", {model.vocab_size, model.d_model}, Role::weight, rule);
  }
}

void Transformer::initialize(uint64_t seed) {
  ropewalk::initialize(parameters_, rules_, config_.model, seed);
}

KeyValueCache Transformer::make_cache(int64_t sequences, int64_t capacity, std::vector<int64_t> padding) const {
  return {config_.model.n_layers, cache_columns(config_), sequences, capacity, dtype_, std::move(padding)};
}

Var Transformer::embed(ForwardPass& pass, const int32_t* tokens) const {
  pass.tape.enter_module("token_embedding");
  const double scale = config_.model.scale_embeddings ? std::sqrt(static_cast<double>(config_.model.d_model)) : 1.0;
  const Var x = embedding(tokens, {pass.sequences, pass.length}, pass.tape.parameter(token_embedding_), scale);
  return pass.drop(scheme_->embed(x, pass.places()));
}

Var Transformer::blocks(ForwardPass& pass, Var x) const {
  const bool inference = pass.tape.mode() == Mode::inference;
  const auto keep = [&] {
    if (pass.trace.residuals == nullptr) return;
    pass.tape.retain_gradient(x);
    pass.trace.residuals->push_back(x);
  };
  const Arena::Mark mark = pass.tape.arena().mark();
  for (const Block& block : blocks_) {
    keep();
    x = block.forward(pass, *scheme_, x);
    // Nothing of a block but its result outlives it without a backward pass, and that takes the place of the result
    // before; a deep model then runs in the memory of one block.
    if (inference && pass.trace.residuals == nullptr) x = pass.tape.keep_only(mark, x);
  }
  keep();
  if (pass.cache != nullptr) pass.cache->advance(pass.length);
  pass.tape.enter_module("final_norm");
  return has_final_norm_ ? final_norm_.forward(x) : x;
}

Var Transformer::head_weight(Tape& tape) const {
  tape.enter_module("lm_head");
  return tape.parameter(lm_head_ >= 0 ? lm_head_ : token_embedding_);
}

Var Transformer::head(Var hidden) const {
  return linear(hidden, head_weight(*hidden.tape));
}

Var Transformer::loss(ForwardPass& pass, const int32_t* tokens, const int32_t* targets, double normalizer) const {
  const Var hidden = blocks(pass, embed(pass, tokens));
  return linear_cross_entropy(hidden, head_weight(pass.tape), targets, normalizer);
}

}  // namespace ropewalk
