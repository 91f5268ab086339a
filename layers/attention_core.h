#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/ops/attention.h"
#include "layers/config.h"
#include "layers/forward_pass.h"
#include "layers/indexer.h"
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
  std::optional<Indexer> indexer;  ///< attention.pattern = top_k

  /// Declares the parameters of the indexer, where there is one, under `prefix`. `score_columns`: columns of a query
  /// and key, of which the scale is 1/sqrt where scores are scaled.
  static AttentionCore declare(const Declarations& declarations, const std::string& prefix,
                               const ArchitectureConfig& config, int64_t score_columns);

  /// Queries of n_heads heads, keys and values of fewer or as many, all made of x [B, T, d_model] -> [B, T, n_heads
  /// v.width]. Where an indexer may choose as many keys as there are, attention is to all, by the same op as without
  /// one.
  Var attend(ForwardPass& pass, int64_t block, const PositionScheme& scheme, Var x, const Heads& q, const Heads& k,
             const Heads& v) const;

 private:
  Var attend_selected(ForwardPass& pass, int64_t block, Var x, const Heads& q, const Heads& k, const Heads& v,
                      const AttentionOptions& options) const;
};

}  // namespace ropewalk
