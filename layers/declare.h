#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/parameter.h"

namespace ropewalk {

/// How a parameter gets its first values; which distribution that is depends on model.init (see initialize.h).
struct InitRule {
  enum class Kind : uint8_t {
    zero,
    one,
    embedding,    ///< a table of vectors, one for each token or position
    linear,       ///< [fan_out, fan_in]
    linear_bias,  ///< of a Linear with fan_in inputs
    uniform,      ///< in (low, high), whatever model.init says
    given,        ///< `values`, whatever model.init says
  };
  Kind kind = Kind::zero;
  int64_t fan_in = 0;
  int64_t fan_out = 0;
  bool output_projection = false;  ///< writes into the residual stream: attention.output, ffn.down
  bool attention_input = false;    ///< query, key or value: in torch one [3 d, d] matrix with zero bias
  bool deepnorm_gain = false;      ///< value, attention.output and ffn: times (8 n_layers)^(-1/4) under deepnorm
  double low = 0.0;
  double high = 1.0;
  std::vector<double> values = {};  ///< given: one an element
};

/// Collects the parameters of a model and how each is initialized, in step with each other.
struct Declarations {
  ParameterSet& parameters;
  std::vector<InitRule>& rules;
  std::string prefix = {};  ///< of all names: "encoder." for a stack beside another

  int32_t add(const std::string& name, const Shape& shape, Role role, const InitRule& rule, double floor = 0.0) const {
    rules.push_back(rule);
    return parameters.add(prefix + name, shape, role, floor);
  }
  /// Parameters that lie side by side, to be seen as one. Their rules are pushed by the caller, in order.
  ParameterSpan add_adjacent(std::vector<Parameter> adjacent) const {
    for (Parameter& parameter : adjacent) parameter.name.insert(0, prefix);
    return parameters.add_adjacent(std::move(adjacent));
  }
};

}  // namespace ropewalk
