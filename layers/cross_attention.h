#pragma once

#include <cstdint>
#include <string>

#include "layers/config.h"
#include "layers/declare.h"
#include "layers/forward_pass.h"
#include "layers/joint_linear.h"
#include "layers/linear.h"

namespace ropewalk {

/// Attention of a decoder's tokens to what the encoder made of the source (Vaswani et al. 2017): queries of x, keys and
/// values of the memory. No position enters it: a source has no place before or after a target.
class CrossAttention {
 public:
  /// Declares `prefix`.{query,key,value,output}.{weight,bias}, query_norm and key_norm.
  static CrossAttention declare(const Declarations& declarations, const std::string& prefix,
                                const ArchitectureConfig& config);

  /// x [B, T, d_model] -> [B, T, d_model], with the output projection still to be done. Keys and values are made of
  /// pass.memory once and kept in the cache where there is one.
  Branch forward(ForwardPass& pass, int64_t block, Var x) const;

 private:
  Var keys_and_values(ForwardPass& pass, int64_t block) const;

  int64_t n_heads_ = 0;
  int64_t n_kv_heads_ = 0;
  int64_t d_head_ = 0;
  double scale_ = 1.0;
  double norm_eps_ = 1e-5;
  JointLinear query_, key_value_;
  Linear output_;
  int32_t query_norm_ = -1;
  int32_t key_norm_ = -1;
};

}  // namespace ropewalk
