#include "train/weight_names.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "layers/positions/options.h"
#include "layers/positions/rope.h"
#include "train/config_resolve.h"

namespace ropewalk {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 2> kSuffixes = {".weight", ".bias"};

/// Adds NAME.weight and NAME.bias of modules; a bias that the model has not is left out.
class Collector {
 public:
  explicit Collector(const ParameterSet& parameters) : parameters_(parameters) {}

  void add(const std::string& name, const std::vector<std::string>& modules, bool transposed = false,
           int64_t halved_width = 0) {
    for (const char* suffix : kSuffixes) {
      const bool weight = suffix == kSuffixes[0];
      WeightTensor tensor{.name = name + suffix, .transposed = transposed && weight, .halved_width = halved_width};
      for (const std::string& module : modules) tensor.parameters.push_back(module + suffix);
      if (!weight && parameters_.find(tensor.parameters.front()) < 0) continue;
      out.push_back(std::move(tensor));
    }
  }

  std::vector<WeightTensor> out;

 private:
  const ParameterSet& parameters_;
};

std::vector<WeightTensor> own_tensors(const ParameterSet& parameters) {
  std::vector<WeightTensor> out;
  for (const Parameter& parameter : parameters.all()) out.push_back({parameter.name, {parameter.name}});
  return out;
}

std::vector<WeightTensor> gpt2_tensors(const Config& config, const ParameterSet& parameters) {
  Collector c(parameters);
  c.add("wte", {"token_embedding"});
  c.add("wpe", {"position_embedding"});
  for (int64_t i = 0; i < config.model.n_layers; ++i) {
    const std::string theirs = fmt::format("h.{}.", i), ours = fmt::format("blocks.{}.", i);
    const std::string attention = ours + "attention.";
    c.add(theirs + "ln_1", {ours + "attention_norm"});
    c.add(theirs + "attn.c_attn", {attention + "query", attention + "key", attention + "value"}, true);
    c.add(theirs + "attn.c_proj", {attention + "output"}, true);
    c.add(theirs + "ln_2", {ours + "ffn_norm"});
    c.add(theirs + "mlp.c_fc", {ours + "ffn.up"}, true);
    c.add(theirs + "mlp.c_proj", {ours + "ffn.down"}, true);
  }
  c.add("ln_f", {"final_norm"});
  if (!config.model.tie_embeddings) c.add("lm_head", {"lm_head"});
  return c.out;
}

std::vector<WeightTensor> llama_tensors(const Config& config, const ParameterSet& parameters) {
  Collector c(parameters);
  const int64_t halved = rope_pairing(config.position) == RopePairing::interleaved ? config.model.d_head : 0;
  c.add("embed_tokens", {"token_embedding"});
  for (int64_t i = 0; i < config.model.n_layers; ++i) {
    const std::string theirs = fmt::format("layers.{}.", i), ours = fmt::format("blocks.{}.", i);
    c.add(theirs + "input_layernorm", {ours + "attention_norm"});
    c.add(theirs + "self_attn.q_proj", {ours + "attention.query"}, false, halved);
    c.add(theirs + "self_attn.k_proj", {ours + "attention.key"}, false, halved);
    c.add(theirs + "self_attn.v_proj", {ours + "attention.value"});
    c.add(theirs + "self_attn.o_proj", {ours + "attention.output"});
    c.add(theirs + "post_attention_layernorm", {ours + "ffn_norm"});
    c.add(theirs + "mlp.gate_proj", {ours + "ffn.gate"});
    c.add(theirs + "mlp.up_proj", {ours + "ffn.up"});
    c.add(theirs + "mlp.down_proj", {ours + "ffn.down"});
  }
  c.add("norm", {"final_norm"});
  if (!config.model.tie_embeddings) c.add("lm_head", {"lm_head"});
  return c.out;
}

/// A parameter without a name there would be lost, and one that is new in the model must not go unnoticed.
void require_complete(WeightNames names, const std::vector<WeightTensor>& tensors, const ParameterSet& parameters) {
  std::vector<int> times(parameters.size(), 0);
  for (const WeightTensor& tensor : tensors) {
    for (const std::string& name : tensor.parameters) {
      const int32_t index = parameters.find(name);
      require(index >= 0, "{} has {}, for which the model has no parameter {}", display_name(names), tensor.name, name);
      ++times[static_cast<std::size_t>(index)];
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    require(times[i] == 1, "the parameter {} has {} places among the tensors of {}",
            parameters[static_cast<int32_t>(i)].name, times[i], display_name(names));
  }
}

// Keys that `theirs` takes over from `config` are those that a config.json can say, and those that act in training
// only. All others keep their defaults, so that a key that is yet to come prevents an export that would not know it.

Config gpt2_of(const Config& config) {
  Config theirs{.position = default_position_config()};
  const ModelConfig& m = config.model;
  theirs.model = {.n_layers = m.n_layers,
                  .d_model = m.d_model,
                  .n_heads = m.n_heads,
                  .d_ff = m.d_ff,
                  .activation = is_gated(m.activation) ? Activation::gelu_tanh : m.activation,
                  .norm_eps = m.norm_eps,
                  .dropout = m.dropout,
                  .tie_embeddings = m.tie_embeddings,
                  .init = m.init,
                  .vocab_size = m.vocab_size};
  derive_sizes(theirs.model);
  theirs.position.encoding = "learned";
  theirs.position.max_length = config.position.max_length;
  theirs.attention.scale_scores = config.attention.scale_scores;
  return theirs;
}

Config llama_of(const Config& config) {
  Config theirs{.position = default_position_config()};
  const ModelConfig& m = config.model;
  theirs.model = {.n_layers = m.n_layers,
                  .d_model = m.d_model,
                  .n_heads = m.n_heads,
                  .n_kv_heads = m.n_kv_heads,
                  .d_head = m.d_head,
                  .d_ff = m.d_ff,
                  .activation = is_gated(m.activation) ? m.activation : Activation::swiglu,
                  .norm = Norm::rmsnorm,
                  .norm_eps = m.norm_eps,
                  .bias = m.bias,
                  .dropout = m.dropout,
                  .tie_embeddings = m.tie_embeddings,
                  .init = m.init,
                  .vocab_size = m.vocab_size};
  theirs.position.encoding = "rope";
  theirs.position.max_length = config.position.max_length;
  if (config.position.encoding != "rope") return theirs;
  const auto& ours = config.position.options;
  for (const char* key : {"rope_theta", "rope_pairing", "rope_scaling", "rope_factor", "rope_original_context",
                          "yarn_beta_fast", "yarn_beta_slow", "llama3_low_freq_factor", "llama3_high_freq_factor"}) {
    theirs.position.options[key] = ours.at(key);
  }
  const bool yarn = config.position.text("rope_scaling") == "yarn";
  if (!yarn) theirs.position.options["yarn_ramp"] = ours.at("yarn_ramp");
  if (yarn || config.position.real("rope_attention_factor") == 1.0) {
    theirs.position.options["rope_attention_factor"] = ours.at("rope_attention_factor");
  }
  theirs.position.options["rope_dims"] = m.d_head;
  return theirs;
}

/// Where the ramp of YaRN runs backwards, of contexts that no pair turns in, programs differ.
bool has_backward_ramp(const Config& config) {
  if (config.position.encoding != "rope" || config.position.text("rope_scaling") != "yarn") return false;
  const YarnRamp ramp = yarn_ramp(rope_settings(config.position));
  return ramp.high < ramp.low;
}

const char* hidden_act(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return "relu";
    case Activation::gelu:
    case Activation::geglu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_new";
    case Activation::silu:
    case Activation::swiglu:
      return "silu";
  }
  fail("an activation of unknown number {}", static_cast<int>(activation));
}

json common_config(const char* architecture, const char* type, const Config& config) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"vocab_size", config.model.vocab_size},
          {"tie_word_embeddings", config.model.tie_embeddings},
          {"torch_dtype", config.train.dtype == "f64" ? "float64" : "float32"},
          {"initializer_range", 0.02},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"use_cache", true}};
}

json gpt2_config(const Config& config) {
  const ModelConfig& m = config.model;
  json out = common_config("GPT2LMHeadModel", "gpt2", config);
  out.update({{"n_layer", m.n_layers},
              {"n_embd", m.d_model},
              {"n_head", m.n_heads},
              {"n_inner", m.d_ff},
              {"n_positions", config.position.max_length},
              {"n_ctx", config.position.max_length},
              {"activation_function", hidden_act(m.activation)},
              {"layer_norm_epsilon", m.norm_eps},
              {"embd_pdrop", m.dropout},
              {"resid_pdrop", m.dropout},
              {"attn_pdrop", 0.0},
              {"scale_attn_weights", config.attention.scale_scores},
              {"scale_attn_by_inverse_layer_idx", false},
              {"reorder_and_upcast_attn", false}});
  return out;
}

/// rope_theta, rope_scaling and max_position_embeddings. The last is, of `yarn` and `dynamic`, the context that they
/// start from: every version of transformers takes it for that, though later ones have a key of its own; of others it
/// is how far positions are meant to reach.
json rope_config(const PositionConfig& p, int64_t d_head) {
  const std::string& scaling = p.text("rope_scaling");
  const double theta = p.real("rope_theta");
  if (scaling == "none") {
    return {{"rope_theta", theta}, {"rope_scaling", nullptr}, {"max_position_embeddings", p.max_length}};
  }
  const double factor = p.real("rope_factor");
  const int64_t original = p.integer("rope_original_context");
  const auto stretched = [&](int64_t length) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(length) * factor));
  };
  if (scaling == "ntk") {  // fixed NTK is another base
    const auto dims = static_cast<double>(d_head);
    return {{"rope_theta", theta * std::pow(factor, dims / (dims - 2))},
            {"rope_scaling", nullptr},
            {"max_position_embeddings", stretched(p.max_length)}};
  }
  json how = {{"rope_type", scaling == "dynamic_ntk" ? "dynamic" : scaling}, {"factor", factor}};
  int64_t longest = original;
  if (scaling == "linear") {
    longest = stretched(p.max_length);
  } else if (scaling == "yarn") {
    how["beta_fast"] = p.real("yarn_beta_fast");
    how["beta_slow"] = p.real("yarn_beta_slow");
    how["attention_factor"] = rope_frequencies(rope_settings(p)).attention_factor;
  } else if (scaling == "llama3") {
    how["low_freq_factor"] = p.real("llama3_low_freq_factor");
    how["high_freq_factor"] = p.real("llama3_high_freq_factor");
    how["original_max_position_embeddings"] = original;
    longest = stretched(original);
  }
  return {{"rope_theta", theta}, {"rope_scaling", how}, {"max_position_embeddings", longest}};
}

json llama_config(const Config& config) {
  const ModelConfig& m = config.model;
  json out = common_config("LlamaForCausalLM", "llama", config);
  out.update({{"num_hidden_layers", m.n_layers},
              {"hidden_size", m.d_model},
              {"num_attention_heads", m.n_heads},
              {"num_key_value_heads", m.n_kv_heads},
              {"head_dim", m.d_head},
              {"intermediate_size", m.d_ff},
              {"hidden_act", hidden_act(m.activation)},
              {"rms_norm_eps", m.norm_eps},
              {"attention_bias", m.bias},
              {"mlp_bias", m.bias},
              {"attention_dropout", 0.0},
              {"pretraining_tp", 1}});
  out.update(rope_config(config.position, m.d_head));
  return out;
}

}  // namespace

const char* display_name(WeightNames names) {
  switch (names) {
    case WeightNames::ropewalk:
      return "Ropewalk";
    case WeightNames::gpt2:
      return "GPT-2";
    case WeightNames::llama:
      return "Llama";
  }
  return "?";
}

const char* name_prefix(WeightNames names) {
  switch (names) {
    case WeightNames::gpt2:
      return "transformer.";
    case WeightNames::llama:
      return "model.";
    case WeightNames::ropewalk:
      break;
  }
  return "";
}

std::vector<WeightTensor> weight_tensors(WeightNames names, const Config& config, const ParameterSet& parameters) {
  std::vector<WeightTensor> out = names == WeightNames::gpt2    ? gpt2_tensors(config, parameters)
                                  : names == WeightNames::llama ? llama_tensors(config, parameters)
                                                                : own_tensors(parameters);
  require_complete(names, out, parameters);
  return out;
}

std::vector<int64_t> weight_shape(const WeightTensor& tensor, const ParameterSet& parameters) {
  std::vector<int64_t> shape;
  for (const std::string& name : tensor.parameters) {
    const Shape& own = parameters[parameters.find(name)].shape;
    if (shape.empty()) {
      for (int axis = 0; axis < own.rank(); ++axis) shape.push_back(own[axis]);
    } else {
      shape[0] += own[0];
    }
  }
  if (tensor.transposed) std::swap(shape.at(0), shape.at(1));
  return shape;
}

std::vector<std::string> naming_conflicts(WeightNames names, const Config& config) {
  if (names == WeightNames::ropewalk) return {};
  const Config theirs = names == WeightNames::gpt2 ? gpt2_of(config) : llama_of(config);
  const std::vector<std::string> sections = {"model", "position", "attention"};
  const bool same_encoding = config.position.encoding == theirs.position.encoding;
  std::vector<std::string> out;
  for (const KeyDifference& difference : differing_keys(config, theirs, sections)) {
    const bool of_scheme = difference.key.starts_with("position.") && difference.key != "position.encoding";
    if (of_scheme && !same_encoding) continue;  // options of an encoding that is refused as it is
    out.push_back(fmt::format("{} = {} ({}: {})", difference.key, config_value(config, difference.key),
                              display_name(names), config_value(theirs, difference.key)));
  }
  if (names == WeightNames::llama && has_backward_ramp(config)) {
    out.push_back(fmt::format("position.rope_original_context = {} (yarn: at least 2 pi position.yarn_beta_slow = {})",
                              config.position.integer("rope_original_context"),
                              config.position.real("yarn_beta_slow")));
  }
  return out;
}

std::string transformers_config(WeightNames names, const Config& config) {
  return (names == WeightNames::gpt2 ? gpt2_config(config) : llama_config(config)).dump(2) + "\n";
}

}  // namespace ropewalk
