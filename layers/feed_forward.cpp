#include "layers/feed_forward.h"

#include "framework/error.h"
#include "framework/ops/linear_activation.h"

namespace ropewalk {
namespace {

ActivationFunction function_of(Activation kind) {
  switch (kind) {
    case Activation::relu:
      return ActivationFunction::relu;
    case Activation::gelu:
    case Activation::geglu:
      return ActivationFunction::gelu;
    case Activation::gelu_tanh:
      return ActivationFunction::gelu_tanh;
    case Activation::silu:
    case Activation::swiglu:
      return ActivationFunction::silu;
  }
  fail("an activation of unknown number {}", static_cast<int>(kind));
}

}  // namespace

FeedForward FeedForward::declare(const Declarations& declarations, const std::string& prefix,
                                 const ModelConfig& model) {
  const InitRule in{
      .kind = InitRule::Kind::linear, .fan_in = model.d_model, .fan_out = model.d_ff, .deepnorm_gain = true};
  const InitRule out{.kind = InitRule::Kind::linear,
                     .fan_in = model.d_ff,
                     .fan_out = model.d_model,
                     .output_projection = true,
                     .deepnorm_gain = true};
  FeedForward layer{.kind = model.activation};
  layer.up = Linear::declare(declarations, prefix + ".up", in, model.bias);
  if (is_gated(model.activation)) layer.gate = Linear::declare(declarations, prefix + ".gate", in, model.bias);
  layer.down = Linear::declare(declarations, prefix + ".down", out, model.bias);
  return layer;
}

Branch FeedForward::forward(Var x) const {
  const ActivationFunction f = function_of(kind);
  if (!is_gated(kind)) return {down, up.forward(x, f)};
  return {down, gated_linear(x, gate.weight_of(x), gate.bias_of(x), up.weight_of(x), up.bias_of(x), f)};
}

}  // namespace ropewalk
