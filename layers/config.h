#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "framework/ops/index_precision.h"

namespace ropewalk {

/// The values of an enumeration beside their names in configuration files, logs and messages.
template <class E, std::size_t N>
using NameTable = std::array<std::pair<E, std::string_view>, N>;

/// The name of a value.
template <class E, std::size_t N>
constexpr std::string_view name_in(const NameTable<E, N>& table, E value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "?";
}

enum class Activation : uint8_t { relu, gelu, gelu_tanh, silu, swiglu, geglu };
inline constexpr NameTable<Activation, 6> kActivationNames{{{Activation::relu, "relu"},
                                                            {Activation::gelu, "gelu"},
                                                            {Activation::gelu_tanh, "gelu_tanh"},
                                                            {Activation::silu, "silu"},
                                                            {Activation::swiglu, "swiglu"},
                                                            {Activation::geglu, "geglu"}}};

/// swiglu and geglu multiply an activated gate with a second projection.
constexpr bool is_gated(Activation a) {
  return a == Activation::swiglu || a == Activation::geglu;
}

enum class Norm : uint8_t { layernorm, rmsnorm };
inline constexpr NameTable<Norm, 2> kNormNames{{{Norm::layernorm, "layernorm"}, {Norm::rmsnorm, "rmsnorm"}}};

enum class NormPlacement : uint8_t { pre, post, sandwich, deepnorm, none };
inline constexpr NameTable<NormPlacement, 5> kNormPlacementNames{{{NormPlacement::pre, "pre"},
                                                                  {NormPlacement::post, "post"},
                                                                  {NormPlacement::sandwich, "sandwich"},
                                                                  {NormPlacement::deepnorm, "deepnorm"},
                                                                  {NormPlacement::none, "none"}}};

enum class Init : uint8_t { gpt2, xavier, torch, deepnorm };
inline constexpr NameTable<Init, 4> kInitNames{
    {{Init::gpt2, "gpt2"}, {Init::xavier, "xavier"}, {Init::torch, "torch"}, {Init::deepnorm, "deepnorm"}}};

enum class AttentionKind : uint8_t { mha, mla };
inline constexpr NameTable<AttentionKind, 2> kAttentionKindNames{
    {{AttentionKind::mha, "mha"}, {AttentionKind::mla, "mla"}}};

/// Which of the keys that the mask leaves a query attends to: all, or those that an indexer chooses.
enum class AttentionPattern : uint8_t { dense, top_k };
inline constexpr NameTable<AttentionPattern, 2> kAttentionPatternNames{
    {{AttentionPattern::dense, "dense"}, {AttentionPattern::top_k, "top_k"}}};

inline constexpr NameTable<IndexPrecision, 2> kIndexPrecisionNames{
    {{IndexPrecision::f32, "f32"}, {IndexPrecision::int8, "int8"}}};

enum class Arch : uint8_t { decoder, encoder, encoder_decoder };
inline constexpr NameTable<Arch, 3> kArchNames{
    {{Arch::decoder, "decoder"}, {Arch::encoder, "encoder"}, {Arch::encoder_decoder, "encoder_decoder"}}};

/// [model]: sizes and architecture. A zero means "derived": see derive_sizes().
struct ModelConfig {
  Arch arch = Arch::decoder;  ///< and with it what the model is trained to predict
  int64_t n_layers = 4;
  int64_t d_model = 128;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 0;  ///< 0: n_heads
  int64_t d_head = 0;      ///< 0: d_model / n_heads
  int64_t d_ff = 0;        ///< 0: 4 d_model
  Activation activation = Activation::gelu;
  Norm norm = Norm::layernorm;
  NormPlacement norm_placement = NormPlacement::pre;
  double norm_eps = 1e-5;
  bool bias = true;
  bool qk_norm = false;
  double dropout = 0.0;
  bool tie_embeddings = true;
  bool scale_embeddings = false;
  Init init = Init::gpt2;
  int64_t vocab_size = 0;  ///< 0: what the data gives
};

/// Fills in the sizes that derive from others, where they are 0. Where the heads do not divide d_model, which
/// resolved() refuses, d_head is rounded down.
inline void derive_sizes(ModelConfig& model) {
  if (model.n_kv_heads == 0) model.n_kv_heads = model.n_heads;
  if (model.d_head == 0 && model.n_heads > 0) model.d_head = std::max<int64_t>(model.d_model / model.n_heads, 1);
  if (model.d_ff == 0) model.d_ff = 4 * model.d_model;
}

/// The value of one option that a position scheme declares (see layers/positions/scheme.h).
using PositionValue = std::variant<int64_t, double, bool, std::string>;

/// [position]: which scheme, and the values of the options that the schemes declare, by key ("rope_theta", ...).
/// `options` holds every option of every scheme; default_position_config() fills in the defaults.
struct PositionConfig {
  std::string encoding = "rope";
  int64_t max_length = 0;    ///< longest sequence of a learned table; 0: the training context
  int64_t randomize_to = 0;  ///< positions of a pass are a sorted sample of [0, randomize_to); 0: they are 0, 1, ...
  std::map<std::string, PositionValue> options;

  int64_t integer(const std::string& key) const { return std::get<int64_t>(options.at(key)); }
  bool flag(const std::string& key) const { return std::get<bool>(options.at(key)); }
  double real(const std::string& key) const { return std::get<double>(options.at(key)); }
  const std::string& text(const std::string& key) const { return std::get<std::string>(options.at(key)); }
};

/// [attention]: which keys a query sees, and how scores are scaled.
struct AttentionConfig {
  AttentionKind kind = AttentionKind::mha;
  bool causal = true;
  bool scale_scores = true;      ///< multiply q . k by 1/sqrt(d_head)
  int64_t window_radius = -1;    ///< keys with |i - j| <= radius; -1: all
  int64_t global_tokens = 0;     ///< the first n positions see and are seen by all
  int64_t mla_kv_rank = 0;       ///< numbers in the latent that keys and values are made of
  int64_t mla_q_rank = 0;        ///< of the query's latent; 0: queries are made of the residual stream
  int64_t mla_rope_dims = 0;     ///< columns of the rotated stream beside each head; 0: none
  bool mla_latent_norm = false;  ///< RMSNorm of both latents
  AttentionPattern pattern = AttentionPattern::dense;
  int64_t top_k = 0;        ///< keys that an indexer chooses for each query
  int64_t index_heads = 4;  ///< of the indexer
  int64_t index_dim = 32;   ///< columns of each of its heads and of its key
  IndexPrecision index_precision = IndexPrecision::f32;
  bool index_hadamard = false;     ///< turn its queries and keys by a Hadamard matrix before they are rounded to int8
  int64_t index_warmup_steps = 0;  ///< first steps of training, in which only the indexers learn
};

/// Columns of each query and key that a rotary scheme may turn: the head, or in latent attention a stream beside it.
inline int64_t rotary_width(const ModelConfig& model, const AttentionConfig& attention) {
  return attention.kind == AttentionKind::mla ? attention.mla_rope_dims : model.d_head;
}

/// Everything that fixes the parameters of a model and its function.
struct ArchitectureConfig {
  ModelConfig model;
  PositionConfig position;
  AttentionConfig attention;
};

}  // namespace ropewalk
