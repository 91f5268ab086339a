#pragma once

#include <string>

#include "framework/ops/linear.h"
#include "framework/ops/linear_activation.h"
#include "layers/declare.h"

namespace ropewalk {

/// y = x W^T + b with W [out, in]; parameters NAME.weight and, where wanted, NAME.bias.
struct Linear {
  int32_t weight = -1;
  int32_t bias = -1;

  static Linear declare(const Declarations& declarations, const std::string& name, const InitRule& rule,
                        bool with_bias) {
    Linear out;
    out.weight = declarations.add(name + ".weight", {rule.fan_out, rule.fan_in}, Role::weight, rule);
    if (with_bias) {
      out.bias = declarations.add(name + ".bias", {rule.fan_out}, Role::other,
                                  {.kind = InitRule::Kind::linear_bias, .fan_in = rule.fan_in});
    }
    return out;
  }

  Var forward(Var x) const { return linear(x, weight_of(x), bias_of(x)); }
  /// f(x W^T + b)
  Var forward(Var x, ActivationFunction f) const { return linear_activation(x, weight_of(x), bias_of(x), f); }
  /// scale residual + x W^T + b
  Var add_to(Var residual, double scale, Var x) const {
    return linear_add(x, weight_of(x), bias_of(x), residual, scale);
  }

  Var weight_of(Var x) const { return x.tape->parameter(weight); }
  Var bias_of(Var x) const { return bias >= 0 ? x.tape->parameter(bias) : Var{}; }
};

/// What a sublayer gives: a projection that is still to be done, so that it can be added to the residual stream in the
/// same op.
struct Branch {
  const Linear& projection;
  Var x;

  Var value() const { return projection.forward(x); }
};

}  // namespace ropewalk
