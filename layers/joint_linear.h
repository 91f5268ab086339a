#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "framework/ops/linear.h"
#include "layers/config.h"
#include "layers/declare.h"

namespace ropewalk {

/// Several projections of one input whose parameters lie side by side, so that one matrix product serves them all.
struct JointLinear {
  struct Part {
    const char* name;
    int64_t rows;  ///< 0: there is no such part
    bool deepnorm_gain = false;
  };

  ParameterSpan weights;
  ParameterSpan biases;  ///< count 0 without biases
  int64_t rows = 0;
  int64_t in = 0;

  /// Declares `prefix`.NAME.weight [rows, in] of each part and, where wanted, `prefix`.NAME.bias, which starts at 0.
  /// `rule` says how weights are drawn; its fan_out, where it is given, is that of all of them, else each has its rows.
  static JointLinear declare(const Declarations& declarations, const std::string& prefix, int64_t in,
                             std::initializer_list<Part> parts, bool with_bias, InitRule rule) {
    JointLinear out{.in = in};
    rule.fan_in = in;
    std::vector<Parameter> weights;
    std::vector<Parameter> biases;
    const int64_t joint = rule.fan_out;
    for (const Part& part : parts) {
      if (part.rows == 0) continue;
      rule.fan_out = joint > 0 ? joint : part.rows;
      rule.deepnorm_gain = part.deepnorm_gain;
      declarations.rules.push_back(rule);
      const std::string name = prefix + "." + part.name;
      weights.push_back({.name = name + ".weight", .shape = {part.rows, in}, .role = Role::weight});
      biases.push_back({.name = name + ".bias", .shape = {part.rows}});
      out.rows += part.rows;
    }
    out.weights = declarations.add_adjacent(std::move(weights));
    if (!with_bias) return out;
    declarations.rules.insert(declarations.rules.end(), biases.size(), InitRule{.kind = InitRule::Kind::zero});
    out.biases = declarations.add_adjacent(std::move(biases));
    return out;
  }

  /// x [.., in] -> [.., rows], the parts one after the other.
  Var forward(Var x) const {
    Tape& tape = *x.tape;
    return linear(x, tape.parameter(weights, {rows, in}), biases.count > 0 ? tape.parameter(biases, {rows}) : Var{});
  }
};

/// How the weights of query, key and value are drawn, which are `rows` together: torch initializes them as one matrix.
inline InitRule attention_input_rule(const ModelConfig& model, int64_t rows) {
  return {.kind = InitRule::Kind::linear, .fan_out = model.init == Init::torch ? rows : 0, .attention_input = true};
}

}  // namespace ropewalk
