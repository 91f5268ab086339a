#pragma once

#include <string>

#include "layers/attention.h"
#include "layers/feed_forward.h"
#include "layers/norm.h"

namespace ropewalk {

/// One layer: attention and feed-forward on the residual stream, with the norms where norm_placement says.
struct Block {
  int64_t index = 0;
  NormPlacement placement = NormPlacement::pre;
  double deepnorm_alpha = 1.0;  ///< (2 n_layers)^(1/4)
  Attention attention;
  FeedForward ffn;
  NormLayer attention_norm, attention_post_norm, ffn_norm, ffn_post_norm;
  std::string attention_name, ffn_name;  ///< "blocks.I.attention", "blocks.I.ffn": for diagnostics

  static Block declare(const Declarations& declarations, int64_t index, const ArchitectureConfig& config,
                       PositionScheme& scheme);

  /// x [B, T, d_model] -> [B, T, d_model]. With f attention, then feed-forward:
  ///   pre       x + f(N(x))            (Xiong et al. 2020)
  ///   post      N(x + f(x))            (Vaswani et al. 2017)
  ///   sandwich  x + N'(f(N(x)))        (Ding et al. 2021)
  ///   deepnorm  N(alpha x + f(x))      (Wang et al. 2022)
  ///   none      x + f(x)
  Var forward(ForwardPass& pass, const PositionScheme& scheme, Var x) const;
};

}  // namespace ropewalk
