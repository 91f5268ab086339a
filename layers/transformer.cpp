#include "layers/transformer.h"

#include <cmath>

#include "framework/error.h"
#include "framework/ops/embedding.h"
#include "framework/ops/linear_cross_entropy.h"
#include "layers/initialize.h"

namespace ropewalk {

namespace {

/// The encoder beside a decoder: all of it but that every token sees every other.
ArchitectureConfig encoder_of(ArchitectureConfig config) {
  config.attention.causal = false;
  return config;
}

}  // namespace

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

Transformer::Transformer(const ArchitectureConfig& config, DType dtype) : config_(resolved(config)), dtype_(dtype) {
  const ModelConfig& model = config_.model;
  const Declarations declarations{parameters_, rules_};
  const InitRule table{.kind = InitRule::Kind::embedding};
  token_embedding_ = declarations.add("token_embedding.weight", {model.vocab_size, model.d_model}, Role::weight, table);
  if (model.arch == Arch::encoder_decoder) {
    encoder_ = Stack::declare({parameters_, rules_, "encoder."}, encoder_of(config_), dtype, false);
  }
  decoder_ = Stack::declare(declarations, config_, dtype, encoder_.has_value());
  if (!model.tie_embeddings) {
    const InitRule rule{.kind = InitRule::Kind::linear, .fan_in = model.d_model, .fan_out = model.vocab_size};
    lm_head_ = declarations.add("lm_head.weight", {model.vocab_size, model.d_model}, Role::weight, rule);
  }
}

void Transformer::initialize(uint64_t seed) {
  ropewalk::initialize(parameters_, rules_, config_.model, seed);
}

KeyValueCache Transformer::make_cache(int64_t sequences, int64_t capacity, std::vector<int64_t> padding) const {
  require(
      config_.attention.causal,
      "attention.causal = false: what the model makes of a token changes with every token after it, so that no cache "
      "can keep it; decode with model.arch = decoder or encoder_decoder");
  return {config_.model.n_layers, cache_columns(config_), sequences, capacity, dtype_, std::move(padding)};
}

Var Transformer::embed_with(const PositionScheme& scheme, ForwardPass& pass, const int32_t* tokens) const {
  const double scale = config_.model.scale_embeddings ? std::sqrt(static_cast<double>(config_.model.d_model)) : 1.0;
  const Var x = embedding(tokens, {pass.sequences, pass.length}, pass.tape.parameter(token_embedding_), scale);
  return pass.drop(scheme.embed(x, pass.places()));
}

Var Transformer::embed(ForwardPass& pass, const int32_t* tokens) const {
  pass.tape.enter_module("token_embedding");
  return embed_with(*decoder_.scheme, pass, tokens);
}

void Transformer::encode(ForwardPass& pass, const SourceTokens& source) const {
  require(encoder_.has_value(), "model.arch = {} has no encoder for a source", name_in(kArchNames, config_.model.arch));
  pass.tape.enter_module("encoder.token_embedding");
  ForwardPass encoding{.tape = pass.tape,
                       .sequences = pass.sequences,
                       .length = source.length,
                       .dropout = pass.dropout,
                       .trace = {.selected = pass.trace.selected},
                       .lengths = source.lengths,
                       .index_training = pass.index_training,
                       .dropout_site = pass.dropout_site};
  pass.memory = encoder_->forward(encoding, embed_with(*encoder_->scheme, encoding, source.tokens));
  pass.memory_lengths = source.lengths;
  pass.dropout_site = encoding.dropout_site;
}

Var Transformer::head_weight(Tape& tape) const {
  tape.enter_module("lm_head");
  return tape.parameter(lm_head_ >= 0 ? lm_head_ : token_embedding_);
}

Var Transformer::head(Var hidden) const {
  return linear(hidden, head_weight(*hidden.tape));
}

Var Transformer::loss(ForwardPass& pass, const int32_t* tokens, const int32_t* targets, double normalizer,
                      double label_smoothing) const {
  const Var hidden = blocks(pass, embed(pass, tokens));
  return linear_cross_entropy(hidden, head_weight(pass.tape), targets, normalizer, label_smoothing);
}

}  // namespace ropewalk
