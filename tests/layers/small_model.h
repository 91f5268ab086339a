#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "framework/ops/cross_entropy.h"
#include "framework/random.h"
#include "layers/positions/options.h"
#include "layers/transformer.h"

namespace ropewalk::testing {

/// Two layers of width 8 with two heads on seven tokens: every part of a model, small enough for differences.
inline ArchitectureConfig small_architecture(const std::string& encoding = "none") {
  ArchitectureConfig config;
  config.model = {.n_layers = 2, .d_model = 8, .n_heads = 2, .d_ff = 10, .vocab_size = 7};
  config.position = default_position_config();
  config.position.encoding = encoding;
  config.position.max_length = 8;
  config.position.options["t5_buckets"] = int64_t{6};
  config.position.options["t5_max_distance"] = int64_t{5};
  config.position.options["shaw_clip"] = int64_t{2};
  config.position.options["fire_width"] = int64_t{4};
  config.position.options["fire_threshold"] = int64_t{5};  // times the multiplier that randomize() draws
  return config;
}

/// Values that no initialization gives: nothing is zero, norm weights differ, what must be positive is.
inline void randomize(const ParameterSet& parameters, double deviation = 0.3, uint64_t seed = 11) {
  for (int32_t p = 0; p < static_cast<int32_t>(parameters.size()); ++p) {
    const Parameter& parameter = parameters[p];
    const Tensor value = parameters.value(p);
    const bool gain = parameter.name.find("norm.weight") != std::string::npos;
    for (int64_t i = 0; i < value.elements(); ++i) {
      double x = deviation * random_normal({.seed = seed, .a = static_cast<uint32_t>(p)}, static_cast<uint64_t>(i));
      if (gain) x += 1.0;
      if (parameter.role == Role::positive) x = 0.05 + std::abs(0.5 + x);
      value.set(i, x);
    }
  }
}

inline std::unique_ptr<Transformer> make_model(const ArchitectureConfig& config, int64_t length,
                                               DType dtype = DType::f64) {
  auto model = std::make_unique<Transformer>(config, dtype);
  model->allocate();
  randomize(model->parameters());
  model->prepare(length);
  if (config.model.arch == Arch::encoder_decoder) model->prepare_source(5);
  return model;
}

/// Tokens that use the whole vocabulary of seven.
inline std::vector<int32_t> some_tokens(int64_t count, uint32_t salt = 0) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int32_t>(7 * random_uniform({.seed = 5, .a = salt}, static_cast<uint64_t>(i))));
  }
  return out;
}

/// Sources of five places, in turn of five, three and one tokens; an encoder-decoder encodes them before its own
/// tokens.
struct SomeSources {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;

  explicit SomeSources(int64_t sequences) : tokens(some_tokens(5 * sequences, 2)) {
    for (int64_t b = 0; b < sequences; ++b) lengths.push_back(5 - b % 3 * 2);
  }
  void encode(const Transformer& model, ForwardPass& pass) const {
    if (model.config().model.arch != Arch::encoder_decoder) return;
    model.encode(pass, {.tokens = tokens.data(), .length = 5, .lengths = lengths});
  }
};

/// A copy that outlives the tape.
inline Tensor copy_of(const Tensor& x) {
  Tensor out = Tensor::zeros(x.shape, x.dtype);
  std::memcpy(out.bytes, x.bytes, x.size_bytes());
  return out;
}

/// All positions that indexers chose, layer by layer.
inline std::vector<int32_t> positions_of(const std::vector<SelectedKeys>& layers) {
  std::vector<int32_t> out;
  for (const SelectedKeys& keys : layers) {
    out.insert(out.end(), keys.positions, keys.positions + keys.sequences * keys.queries * keys.width);
  }
  return out;
}

/// The logits [sequences, length, vocab] of one pass.
inline Tensor logits_of(const Transformer& model, const std::vector<int32_t>& tokens, int64_t sequences,
                        Mode mode = Mode::inference, const DropoutKey& dropout = {}) {
  Workspace workspace;
  GradientBuffer gradients(model.parameters());
  Tape tape(workspace, mode, &model.parameters(), &gradients);
  ForwardPass pass{.tape = tape,
                   .sequences = sequences,
                   .length = static_cast<int64_t>(tokens.size()) / sequences,
                   .dropout = dropout};
  const SomeSources sources(sequences);
  sources.encode(model, pass);
  return copy_of(model.logits(pass, tokens.data()).value());
}

/// The mean loss of one pass; `gradients` receives those of the parameters, `selected` what the indexers chose.
inline double loss_of(const Transformer& model, const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets,
                      int64_t sequences, GradientBuffer* gradients = nullptr,
                      std::vector<int32_t>* selected = nullptr) {
  Workspace workspace;
  Tape tape(workspace, gradients != nullptr ? Mode::train : Mode::inference, &model.parameters(), gradients);
  ForwardPass pass{.tape = tape, .sequences = sequences, .length = static_cast<int64_t>(tokens.size()) / sequences};
  std::vector<SelectedKeys> keys;
  if (selected != nullptr) pass.trace.selected = &keys;
  const SomeSources sources(sequences);
  sources.encode(model, pass);
  int64_t counted = 0;
  for (const int32_t target : targets) counted += target != kIgnoredTarget ? 1 : 0;
  const Var loss = cross_entropy(model.logits(pass, tokens.data()), targets.data(), static_cast<double>(counted));
  if (selected != nullptr) *selected = positions_of(keys);
  if (gradients != nullptr) {
    gradients->clear();
    tape.backward(loss);
    gradients->complete(model.parameters());
  }
  return loss.value().at(0);
}

}  // namespace ropewalk::testing
