#pragma once

#include <cstdint>
#include <string>

#include "framework/ops/heads.h"
#include "framework/ops/select_top_k.h"
#include "framework/ops/selected_keys.h"
#include "layers/config.h"
#include "layers/declare.h"
#include "layers/forward_pass.h"
#include "layers/linear.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

/// What an indexer makes of the tokens of a pass and of all before them, as index_loss() and select_top_k() take it.
struct IndexOperands {
  Var query;   ///< [B, T, index_heads * index_dim]
  Var key;     ///< [B, S, index_dim]
  Var weight;  ///< [B, T, index_heads]
};

/// The lightning indexer of DeepSeek sparse attention (DeepSeek-V3.2-Exp, 2025), which chooses the keys that a query
/// attends to. With x the input of the attention,
///
///   q^I = RoPE(x W_Q), index_heads of index_dim columns      k^I = RoPE(LayerNorm(x W_K)), one that the heads share
///   w^I = x W_w / sqrt(index_heads index_dim)                I_ts = sum over heads h of w_th relu(q_th . k_s)
///
/// where the first index_dim / 2 columns turn, in split halves. It learns by index_loss alone: no gradient reaches x.
/// (Published on latent attention, it makes q^I of the query's latent; here both kinds of attention make it of x.)
class Indexer {
 public:
  /// Declares `prefix`.index_query.weight, index_key.weight, index_key_norm.{weight,bias} and index_weight.weight.
  static Indexer declare(const Declarations& declarations, const std::string& prefix, const ArchitectureConfig& config);

  /// The keys of x [B, T, d_model], before rotation; with a cache behind those of the tokens before, in its last table.
  Heads keys(ForwardPass& pass, int64_t block, Var x) const;
  /// The rest; `table` is that of index_rotation().
  IndexOperands operands(ForwardPass& pass, const RotaryTable& table, Var x, const Heads& keys) const;
  /// The keys of each query, see select_top_k().
  SelectedKeys select(const IndexOperands& operands, const AttentionMask& mask, const SequenceKeys& sequences) const;

  int64_t top_k() const { return top_k_; }

 private:
  Var detached(ForwardPass& pass, Var x) const { return pass.tape.constant(x.value()); }

  int64_t top_k_ = 0;
  int64_t heads_ = 0;
  int64_t d_ = 0;
  double norm_eps_ = 1e-5;
  IndexPrecision precision_ = IndexPrecision::f32;
  bool hadamard_ = false;
  Linear query_, key_, weight_;
  int32_t key_norm_weight_ = -1;
  int32_t key_norm_bias_ = -1;
};

/// The rotation of the indexers of a model: RoPE with the model's rope_theta and scaling, whatever its encoding is.
std::unique_ptr<PositionScheme> index_rotation(const ArchitectureConfig& config, DType dtype);

/// Whether a parameter of this name is an indexer's.
bool is_index_parameter(const std::string& name);

/// Elements of the weight matrices of one layer's indexer; 0 without one.
double index_weights(const ArchitectureConfig& config);

}  // namespace ropewalk
