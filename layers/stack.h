#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layers/block.h"
#include "layers/config.h"
#include "layers/declare.h"
#include "layers/forward_pass.h"
#include "layers/norm.h"
#include "layers/positions/scheme.h"

namespace ropewalk {

/// Layers one after the other, with their position scheme and the norm that ends them (pre and sandwich). A decoder is
/// one; with an encoder there are two.
struct Stack {
  std::unique_ptr<PositionScheme> scheme;
  std::unique_ptr<PositionScheme> index_rotation;  ///< of the indexers; null without them
  std::vector<Block> blocks;
  NormLayer final_norm;
  bool has_final_norm = false;
  std::string final_norm_name;

  /// `crosses`: its blocks attend to an encoder's memory. `config` is resolved.
  static Stack declare(const Declarations& declarations, const ArchitectureConfig& config, DType dtype, bool crosses);

  /// Position tables for passes of exactly `length`; see PositionScheme.
  void prepare(const PassPositions& positions);

  /// The residual stream x [B, T, d_model] through all blocks and the final norm.
  Var forward(ForwardPass& pass, Var x) const;
};

}  // namespace ropewalk
