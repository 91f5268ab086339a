#pragma once

#include <cstdint>
#include <span>

#include "framework/parameter.h"
#include "layers/config.h"
#include "layers/declare.h"

namespace ropewalk {

/// Draws the first values of all parameters. Each parameter has a stream of its own, keyed by the seed and its name, so
/// that models that share a parameter start it alike.
///
///   gpt2      linear and tables N(0, 0.02^2), output projections divided by sqrt(2 n_layers); biases 0
///             (Radford et al. 2019)
///   xavier    linear N(0, 2 / (fan_in + fan_out)); tables N(0, 0.02^2); biases 0 (Glorot & Bengio 2010)
///   torch     what torch.nn gives: query, key and value as one matrix [3d, d], uniform within sqrt(6 / 4d), their
///             biases and that of attention.output 0; other weights and biases uniform within 1/sqrt(fan_in);
///             tables N(0, 1)
///   deepnorm  xavier, with value, attention.output and feed-forward weights times (8 n_layers)^(-1/4)
///             (Wang et al. 2022)
void initialize(const ParameterSet& parameters, std::span<const InitRule> rules, const ModelConfig& model,
                uint64_t seed);

}  // namespace ropewalk
