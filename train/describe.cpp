#include "train/describe.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "train/cache_size.h"
#include "train/flops.h"
#include "train/idle_keys.h"
#include "train/log_layout.h"
#include "train/memory.h"
#include "train/run_setup.h"

namespace ropewalk {
namespace {

std::string count_text(double n) {
  if (n >= 1e9) return fmt::format("{:.3f} G", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.3f} M", n / 1e6);
  if (n >= 1e3) return fmt::format("{:.1f} k", n / 1e3);
  return fmt::format("{:.0f}", n);
}

/// What an indexer chooses, and what that costs.
std::string indexer_text(const AttentionConfig& a, int64_t context) {
  std::string out = fmt::format(
      "of the keys that the mask leaves, the {} of greatest index score ({} heads of {}, {}{}); {}", a.top_k,
      a.index_heads, a.index_dim, name_in(kIndexPrecisionNames, a.index_precision),
      a.index_hadamard ? ", Hadamard" : "",
      a.top_k >= context ? fmt::format("up to {} positions all of them", context) : "the indexer reads all");
  if (a.index_warmup_steps > 0) out += fmt::format("; in the first {} steps only it learns", a.index_warmup_steps);
  return out;
}

std::string mask_text(const AttentionConfig& a, Arch arch, int64_t n_layers) {
  std::string out = arch == Arch::encoder_decoder ? "encoder bidirectional, decoder causal and across to the source"
                    : a.causal                    ? "causal"
                                                  : "bidirectional";
  if (a.window_radius < 0) return out + ", all positions";
  const int64_t visible = a.causal ? a.window_radius + 1 : 2 * a.window_radius + 1;
  out += fmt::format(", window radius {} ({} visible keys, itself included)", a.window_radius, visible);
  if (a.global_tokens > 0) out += fmt::format(", {} global tokens at the start", a.global_tokens);
  const int64_t field = (a.causal ? 1 : 2) * n_layers * a.window_radius + 1;
  return out + fmt::format(", receptive field of {} layers: {} tokens{}", n_layers, field,
                           a.global_tokens > 0 ? " besides the global ones" : "");
}

/// Bytes of a cache by kind of attention: a line each.
std::vector<std::pair<std::string, std::string>> cache_lines(const ArchitectureConfig& config, const Config& run) {
  const auto size = static_cast<double>(size_of(dtype_of(run.train)));
  const auto layers = static_cast<double>(config.model.n_layers);
  const auto context = static_cast<double>(run.train.context_length);
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("key/value cache", fmt::format("bytes a token and layer, a token, and a sequence of {} tokens ({})",
                                                  run.train.context_length, run.train.dtype));
  for (const CacheVariant& variant : cache_variants(config)) {
    const double layer = static_cast<double>(variant.numbers) * size;
    out.emplace_back("  " + variant.name,
                     fmt::format("{}, {}, {}{}", layer, layer * layers, bytes_text(layer * layers * context),
                                 variant.configured ? "  <- this model" : ""));
  }
  return out;
}

/// The encoding and the keys that it reads: "rope, rope_theta 10000, ...".
std::string position_text(const Config& config) {
  std::string out = config.position.encoding;
  for (const Option& option : option_table().options()) {
    if (option.section() != "position" || option.name() == "encoding") continue;
    if (!idle_because_of(config, option.key).empty()) continue;
    out += fmt::format(", {} {}", option.name(), format_value(option.get(config)));
  }
  return out;
}

}  // namespace

std::string describe(const ResolvedConfig& resolved) {
  Config config = resolved.config;
  const std::unique_ptr<Dataset> dataset = open_data(config);
  const ArchitectureConfig architecture = architecture_of(config);
  const Transformer model(architecture, dtype_of(config.train));
  const ModelConfig& m = config.model;
  const SequenceShape shape = training_shape(config);
  const SequenceShape longest = longest_evaluation_shape(config);

  std::string out;
  const auto line = [&](const std::string& key, const std::string& value) {
    out += fmt::format("{:<22} {}\n", key, value);
  };
  line("data", dataset->describe());
  line("model", fmt::format("{}{} layers, d_model {}, {} heads ({} key/value) of {}, d_ff {}, {}, {} {}",
                            m.arch == Arch::encoder_decoder ? "encoder and decoder of " : "", m.n_layers, m.d_model,
                            m.n_heads, m.n_kv_heads, m.d_head, m.d_ff, name_in(kActivationNames, m.activation),
                            name_in(kNormPlacementNames, m.norm_placement), name_in(kNormNames, m.norm)));
  line("positions", position_text(config));
  PositionUse use = position_use(architecture);
  use.context_length = config.train.context_length;
  use.eval_lengths = config.eval.lengths;
  for (const PositionFact& fact : describe_position(use)) {
    line("  " + fact.name, fact.text);
  }
  line("attention", mask_text(config.attention, m.arch, m.n_layers));
  if (config.attention.pattern == AttentionPattern::top_k) {
    line("  selection", indexer_text(config.attention, std::max(shape.source, shape.length)));
  }

  std::map<std::string, int64_t> by_module;
  std::vector<std::string> order;
  for (const Parameter& parameter : model.parameters().all()) {
    std::string name = parameter.name.substr(0, parameter.name.rfind('.'));
    if (const std::size_t at = name.find("blocks."); at != std::string::npos) {
      name = name.substr(0, at) + "blocks.*" + name.substr(name.find('.', at + 7));
    }
    if (!by_module.contains(name)) order.push_back(name);
    by_module[name] += parameter.elements();
  }
  line("parameters", fmt::format("{} ({})", model.parameters().elements(),
                                 count_text(static_cast<double>(model.parameters().elements()))));
  for (const std::string& name : order) line("  " + name, std::to_string(by_module[name]));

  const FlopCount flops = count_flops(config, shape);
  const auto flops_line = [&](const char* key, const FlopCount& count, const char* remark) {
    line(key, fmt::format("{} forward, {} forward and backward{}", count_text(count.forward),
                          count_text(count.training()), remark));
  };
  flops_line("FLOPs a token", flops, " (matrix products; hidden half not counted)");
  if (shape.source > 0) {
    flops_line("  a source token", count_source_flops(config, shape), "");
    flops_line("  a target token", count_target_flops(config, shape), "");
    line("a sequence", fmt::format("{} at most", shape_text(shape)));
  }
  const double tokens =
      static_cast<double>(config.train.batch_size * config.train.accumulate) * static_cast<double>(shape.positions());
  line("a step", fmt::format("{} tokens, {} FLOPs; {} steps: {} tokens", count_text(tokens),
                             count_text(tokens * flops.training()), config.train.steps,
                             count_text(tokens * static_cast<double>(config.train.steps))));
  const MemoryEstimate memory =
      estimate_memory(config, static_cast<double>(model.parameters().elements()), m.vocab_size, longest);
  line("memory, about",
       fmt::format("{}: parameters and optimizer {}, activations {}, batch {}, evaluation at {}: {}",
                   bytes_text(memory.total()), bytes_text(memory.parameters), bytes_text(memory.activations),
                   bytes_text(memory.batch), shape_text(longest), bytes_text(memory.evaluation)));
  if (m.arch == Arch::encoder) {
    line("key/value cache", "none: a token sees those after it, so it cannot be decoded token by token");
    return out;
  }
  for (const auto& [key, value] : cache_lines(model.config(), config)) line(key, value);
  if (shape.source > 0) {
    const double source = 2.0 * static_cast<double>(m.n_kv_heads * m.d_head) * (config.train.dtype == "f64" ? 8 : 4);
    line("  of the source", fmt::format("{} bytes a token and layer, {} a token in all (cross-attention)", source,
                                        static_cast<double>(m.n_layers) * source));
  }
  return out;
}

}  // namespace ropewalk
