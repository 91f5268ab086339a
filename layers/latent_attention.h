#pragma once

#include <cstdint>
#include <string>

#include "layers/attention_core.h"
#include "layers/config.h"
#include "layers/declare.h"
#include "layers/forward_pass.h"
#include "layers/joint_linear.h"
#include "layers/linear.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

/// Multi-head latent attention (DeepSeek-V2, 2024): keys and values are made of a latent of mla_kv_rank numbers a
/// token, and positions act on a stream of their own, mla_rope_dims columns of each query and of one key that all heads
/// share.
///
///   c = N(x W_DKV)       k_h = c W_UK,h      v_h = c W_UV,h      k^R = RoPE(x W_KR)
///   c' = N(x W_DQ), or x where mla_q_rank is 0      q_h = c' W_UQ,h      q_h^R = RoPE(c' W_QR,h)
///   scores_h = (q_h . k_h + q_h^R . k^R) / sqrt(d_head + mla_rope_dims)
///
/// Training takes this form. With a cache it is absorbed: q_h . k_h = (q_h W_UK,h^T) . c, and W_UV,h acts after the
/// weighted sum, so the cache holds c and k^R only, and keys and values are never made of it.
class LatentAttention {
 public:
  /// Declares `prefix`.{query_down, query_up, query_rope, kv_down, key_up, value_up, key_rope}.weight,
  /// {kv,query}_latent_norm.weight, output.{weight,bias}, and the scheme's own.
  static LatentAttention declare(const Declarations& declarations, const std::string& prefix,
                                 const ArchitectureConfig& config, PositionScheme& scheme);

  /// As MultiHeadAttention::forward().
  Branch forward(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x) const;

 private:
  /// RMSNorm where mla_latent_norm wants one.
  Var latent_norm(Var latent, int32_t weight) const;
  Var absorbed(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x, const Heads& content,
               const Heads& position, Var latent, Var key_rope) const;

  int64_t n_heads_ = 0;
  int64_t d_head_ = 0;
  int64_t kv_rank_ = 0;
  int64_t rope_dims_ = 0;
  double norm_eps_ = 1e-5;
  AttentionCore core_;
  Linear query_down_, kv_down_, key_rope_, output_;  ///< query_down: weight -1 where the query has no latent
  JointLinear query_;                                ///< query_up, then query_rope where there is one
  JointLinear key_value_;                            ///< key_up, value_up
  int32_t kv_latent_norm_ = -1;
  int32_t query_latent_norm_ = -1;
};

}  // namespace ropewalk
