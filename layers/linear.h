#pragma once

#include <string>

#include "framework/ops/linear.h"
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

  Var forward(Var x) const {
    Tape& tape = *x.tape;
    return linear(x, tape.parameter(weight), bias >= 0 ? tape.parameter(bias) : Var{});
  }
};

}  // namespace ropewalk
