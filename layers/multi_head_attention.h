#pragma once

#include <string>

#include "layers/attention_core.h"
#include "layers/config.h"
#include "layers/forward_pass.h"
#include "layers/joint_linear.h"
#include "layers/linear.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

/// Multi-head attention with n_kv_heads key/value heads (MHA, GQA of Ainslie et al. 2023, MQA of Shazeer 2019).
///
/// query, key and value are parameters of their own that lie side by side, so that one matrix product serves the three.
class MultiHeadAttention {
 public:
  /// Declares `prefix`.{query,key,value,output}.{weight,bias}, query_norm and key_norm, and the scheme's own.
  static MultiHeadAttention declare(const Declarations& declarations, const std::string& prefix,
                                    const ArchitectureConfig& config, PositionScheme& scheme);

  /// x [B, T, d_model] -> [B, T, d_model], with the output projection still to be done. `block` is the index of the
  /// layer.
  Branch forward(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x) const;

 private:
  int64_t n_heads_ = 0;
  int64_t n_kv_heads_ = 0;
  int64_t d_head_ = 0;
  double norm_eps_ = 1e-5;
  AttentionCore core_;
  JointLinear query_key_value_;
  int32_t query_norm_ = -1;
  int32_t key_norm_ = -1;
  Linear output_;
};

}  // namespace ropewalk
