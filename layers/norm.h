#pragma once

#include <string>

#include "framework/ops/norm.h"
#include "layers/config.h"
#include "layers/declare.h"

namespace ropewalk {

/// LayerNorm or RMSNorm over d_model; parameters NAME.weight and, for LayerNorm with biases, NAME.bias.
struct NormLayer {
  Norm kind = Norm::layernorm;
  double eps = 1e-5;
  int32_t weight = -1;
  int32_t bias = -1;

  static NormLayer declare(const Declarations& declarations, const std::string& name, const ModelConfig& model) {
    NormLayer out{.kind = model.norm, .eps = model.norm_eps};
    out.weight = declarations.add(name + ".weight", {model.d_model}, Role::other, {.kind = InitRule::Kind::one});
    if (model.norm == Norm::layernorm && model.bias) {
      out.bias = declarations.add(name + ".bias", {model.d_model}, Role::other, {.kind = InitRule::Kind::zero});
    }
    return out;
  }

  Var forward(Var x) const {
    Tape& tape = *x.tape;
    if (kind == Norm::rmsnorm) return rms_norm(x, tape.parameter(weight), eps);
    return layer_norm(x, tape.parameter(weight), bias >= 0 ? tape.parameter(bias) : Var{}, eps);
  }
};

}  // namespace ropewalk
