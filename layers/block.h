#pragma once

#include <optional>
#include <string>

#include "layers/attention.h"
#include "layers/cross_attention.h"
#include "layers/feed_forward.h"
#include "layers/norm.h"

namespace ropewalk {

/// One layer: attention, in a decoder with an encoder cross-attention, and feed-forward on the residual stream, with
/// the norms where norm_placement says.
struct Block {
  int64_t index = 0;
  NormPlacement placement = NormPlacement::pre;
  double deepnorm_alpha = 1.0;  ///< (2 n_layers)^(1/4)
  Attention attention;
  std::optional<CrossAttention> cross_attention;
  FeedForward ffn;
  NormLayer attention_norm, attention_post_norm, cross_attention_norm, cross_attention_post_norm, ffn_norm,
      ffn_post_norm;
  /// "blocks.I.attention", "blocks.I.cross_attention", "blocks.I.ffn": for diagnostics
  std::string attention_name, cross_attention_name, ffn_name;

  /// `crosses`: with cross-attention to an encoder's memory.
  static Block declare(const Declarations& declarations, int64_t index, const ArchitectureConfig& config,
                       PositionScheme& scheme, bool crosses = false);

  /// x [B, T, d_model] -> [B, T, d_model]. With f attention, then cross-attention, then feed-forward:
  ///   pre       x + f(N(x))            (Xiong et al. 2020)
  ///   post      N(x + f(x))            (Vaswani et al. 2017)
  ///   sandwich  x + N'(f(N(x)))        (Ding et al. 2021)
  ///   deepnorm  N(alpha x + f(x))      (Wang et al. 2022)
  ///   none      x + f(x)
  Var forward(ForwardPass& pass, const PositionScheme& scheme, Var x) const;
};

}  // namespace ropewalk
