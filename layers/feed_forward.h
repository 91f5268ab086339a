#pragma once

#include <string>

#include "layers/config.h"
#include "layers/linear.h"

namespace ropewalk {

/// down(act(up(x))), or down(act(gate(x)) * up(x)) for swiglu and geglu (Shazeer 2020).
struct FeedForward {
  Activation kind = Activation::gelu;
  Linear up;
  Linear gate;  ///< gated activations only
  Linear down;

  static FeedForward declare(const Declarations& declarations, const std::string& prefix, const ModelConfig& model);

  /// x [B, T, d_model] -> [B, T, d_model], with `down` still to be done.
  Branch forward(Var x) const;
};

}  // namespace ropewalk
