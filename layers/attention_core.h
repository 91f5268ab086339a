#pragma once

#include <cstdint>
#include <string>

#include "framework/ops/attention.h"
#include "layers/config.h"
#include "layers/forward_pass.h"
#include "layers/linear.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

/// Declares `prefix`.output.{weight,bias}, which every kind of attention ends with.
Linear declare_attention_output(const Declarations& declarations, const std::string& prefix, const ModelConfig& model);

/// What every kind of attention does once it has queries, keys and values.
struct AttentionCore {
  int64_t n_heads = 0;
  double scale = 1.0;
  AttentionMask mask;

  /// `score_columns`: columns of a query and key, of which the scale is 1/sqrt where scores are scaled.
  static AttentionCore of(const ArchitectureConfig& config, int64_t score_columns);

  /// Queries of n_heads heads, keys and values of fewer or as many -> [B, T, n_heads v.width].
  Var attend(ForwardPass& pass, int64_t block, const PositionScheme& scheme, const Heads& q, const Heads& k,
             const Heads& v) const;
};

}  // namespace ropewalk
