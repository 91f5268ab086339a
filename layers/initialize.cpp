#include "layers/initialize.h"

#include <cmath>
#include <string_view>

#include "framework/random.h"

namespace ropewalk {
namespace {

/// FNV-1a, to give each parameter's name a stream.
uint64_t hash_of(std::string_view name) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

enum class Distribution : uint8_t { constant, normal, uniform, given };

struct Draw {
  Distribution distribution = Distribution::constant;
  double a = 0.0;  ///< the constant, the standard deviation, or the lower end
  double b = 0.0;  ///< the upper end
};

Draw normal(double deviation) {
  return {Distribution::normal, deviation};
}
Draw within(double bound) {
  return {Distribution::uniform, -bound, bound};
}

Draw draw_linear(const InitRule& rule, const ModelConfig& model) {
  const auto in = static_cast<double>(rule.fan_in);
  const auto out = static_cast<double>(rule.fan_out);
  const auto layers = static_cast<double>(model.n_layers);
  switch (model.init) {
    case Init::gpt2:
      return normal(rule.output_projection ? 0.02 / std::sqrt(2 * layers) : 0.02);
    case Init::torch:
      return within(rule.attention_input ? std::sqrt(6.0 / (in + out)) : 1 / std::sqrt(in));
    case Init::xavier:
      return normal(std::sqrt(2 / (in + out)));
    case Init::deepnorm:
      return normal(std::sqrt(2 / (in + out)) * (rule.deepnorm_gain ? std::pow(8 * layers, -0.25) : 1.0));
  }
  return {};
}

Draw draw_of(const InitRule& rule, const ModelConfig& model) {
  const bool torch = model.init == Init::torch;
  switch (rule.kind) {
    case InitRule::Kind::zero:
      return {};
    case InitRule::Kind::one:
      return {Distribution::constant, 1.0};
    case InitRule::Kind::embedding:
      return normal(torch ? 1.0 : 0.02);
    case InitRule::Kind::linear:
      return draw_linear(rule, model);
    case InitRule::Kind::linear_bias:
      return torch ? within(1 / std::sqrt(static_cast<double>(rule.fan_in))) : Draw{};
    case InitRule::Kind::uniform:
      return {Distribution::uniform, rule.low, rule.high};
    case InitRule::Kind::given:
      return {Distribution::given};
  }
  return {};
}

}  // namespace

void initialize(const ParameterSet& parameters, std::span<const InitRule> rules, const ModelConfig& model,
                uint64_t seed) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const Draw draw = draw_of(rules[i], model);
    const uint64_t name = hash_of(parameters[index].name);
    const RandomKey key{seed, Stream::initialization, static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)};
    const Tensor value = parameters.value(index);
    for (int64_t e = 0; e < value.elements(); ++e) {
      const auto element = static_cast<uint64_t>(e);
      switch (draw.distribution) {
        case Distribution::constant:
          value.set(e, draw.a);
          break;
        case Distribution::normal:
          value.set(e, draw.a * random_normal(key, element));
          break;
        case Distribution::uniform:
          value.set(e, draw.a + (draw.b - draw.a) * random_uniform(key, element));
          break;
        case Distribution::given:
          value.set(e, rules[i].values.at(element));
          break;
      }
    }
  }
}

}  // namespace ropewalk
