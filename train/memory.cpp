#include "train/memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "framework/error.h"
#include "framework/tensor.h"
#include "layers/attention.h"
#include "layers/positions/scheme.h"
#include "train/trainer.h"

namespace ropewalk {
namespace {

/// Numbers a token leaves in one layer of the tape.
double values_per_layer(const ModelConfig& m, const AttentionConfig& a) {
  const auto d = static_cast<double>(m.d_model);
  double qkv = static_cast<double>(m.n_heads + 2 * m.n_kv_heads) * static_cast<double>(m.d_head);
  if (a.kind == AttentionKind::mla) {
    // The rotated columns are kept as they are projected and once more beside those of the heads.
    const auto rope = static_cast<double>(a.mla_rope_dims);
    qkv += static_cast<double>(m.n_heads) * (3 * rope + (rope > 0 ? 2 * static_cast<double>(m.d_head) : 0)) + rope;
    qkv += 2 * static_cast<double>(a.mla_kv_rank + a.mla_q_rank);
  }
  double indexer = 0;
  if (a.pattern == AttentionPattern::top_k) {
    // As projected, normed and turned, once more by a Hadamard matrix, and the gradients that its loss makes at once.
    const auto index_heads = static_cast<double>(a.index_heads);
    indexer = 4 * index_heads * static_cast<double>(a.index_dim) + 5 * static_cast<double>(a.index_dim) +
              3 * index_heads + static_cast<double>(a.top_k);
  }
  const double heads = static_cast<double>(m.n_heads) * static_cast<double>(m.d_head);
  const double ff = static_cast<double>(m.d_ff) * (is_gated(m.activation) ? 3 : 2);
  return 6 * d + qkv * (m.qk_norm ? 2 : 1) + heads + ff + indexer;
}

/// Numbers that cross-attention adds to a layer: for a source token its key and value, for a target token the query,
/// what it got and the residual stream.
double keys_and_values(const ModelConfig& m) {
  return 2 * static_cast<double>(m.n_kv_heads) * static_cast<double>(m.d_head);
}
double cross_values(const ModelConfig& m) {
  return 2 * static_cast<double>(m.d_model) + 2 * static_cast<double>(m.n_heads) * static_cast<double>(m.d_head);
}

/// Numbers a sequence leaves on the tape of a training pass.
double values_per_sequence(const Config& config, const SequenceShape& shape, int64_t vocab_size) {
  const ModelConfig& m = config.model;
  const double layer = values_per_layer(m, config.attention);
  const double source = shape.source > 0 ? layer + keys_and_values(m) : 0;
  const double target = layer + (shape.source > 0 ? cross_values(m) : 0);
  const auto layers = static_cast<double>(m.n_layers);
  return static_cast<double>(shape.source) * layers * source +
         static_cast<double>(shape.length) * (layers * target + 2 * static_cast<double>(vocab_size));
}

double bytes_a_number(const Config& config) {
  return config.train.dtype == "f64" ? 8 : 4;
}

/// Numbers that the position schemes make of their parameters in a pass, for its offsets or those of random positions.
double offset_numbers(const Config& config, const SequenceShape& shape) {
  const PositionSchemeInfo* scheme = find_position_scheme(config.position.encoding);
  if (scheme == nullptr || scheme->numbers_an_offset == nullptr) return 0;
  const auto offsets = [&](int64_t length) {
    return length > 0 ? 2 * static_cast<double>(std::max(length, config.position.randomize_to)) - 1 : 0.0;
  };
  return scheme->numbers_an_offset(position_use(architecture_of(config))) * static_cast<double>(config.model.n_layers) *
         (offsets(shape.length) + offsets(shape.source));
}

/// What the position scheme learns, from what it declares.
double position_parameters(const ArchitectureConfig& config) {
  const ModelConfig& m = config.model;
  ParameterSet parameters;
  std::vector<InitRule> rules;
  const Declarations declarations{parameters, rules};
  const auto scheme = make_position_scheme(
      config.position,
      {.n_heads = m.n_heads, .d_model = m.d_model, .d_head = m.d_head, .causal = config.attention.causal});
  scheme->declare(declarations);
  const auto outside = static_cast<double>(parameters.elements());
  scheme->declare_in_block(declarations, "block");
  const double stacks = m.arch == Arch::encoder_decoder ? 2 : 1;
  return stacks * (outside + static_cast<double>(m.n_layers) * (static_cast<double>(parameters.elements()) - outside));
}

}  // namespace

double machine_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

double count_parameters(const ArchitectureConfig& config) {
  const ModelConfig& m = config.model;
  const auto d = static_cast<double>(m.d_model);
  const double ff = static_cast<double>(m.d_ff);
  const double layer = attention_weights(config) + d * ff * (is_gated(m.activation) ? 3 : 2);
  // The encoder has as many layers, and the decoder's attend to it.
  const double pair =
      m.arch == Arch::encoder_decoder ? layer + 2 * d * static_cast<double>((m.n_heads + m.n_kv_heads) * m.d_head) : 0;
  const double tables = static_cast<double>(m.vocab_size) * d * (m.tie_embeddings ? 1 : 2);
  return static_cast<double>(m.n_layers) * (layer + pair) + tables + position_parameters(config);
}

MemoryEstimate estimate_memory(const Config& config, double parameters, int64_t vocab_size,
                               const SequenceShape& longest) {
  const double size = bytes_a_number(config);
  const auto workers = static_cast<double>(config.train.threads);
  const double sequences = static_cast<double>(config.train.batch_size) * static_cast<double>(config.train.accumulate);
  const SequenceShape shape = training_shape(config);
  const auto micro_batch = static_cast<double>(plan_batch(config).micro_batch);
  const double logits = 2 * static_cast<double>(vocab_size);
  // Of a pair the cross-attention, and what greedy decoding caches of both halves.
  const ModelConfig& m = config.model;
  const double cross = longest.source > 0 ? cross_values(m) + static_cast<double>(m.n_layers) * keys_and_values(m) : 0;
  MemoryEstimate out;
  out.parameters = parameters * size * (4 + workers);
  out.activations = workers *
                    (micro_batch * values_per_sequence(config, shape, vocab_size) + offset_numbers(config, shape)) *
                    size * 2;
  out.batch = sequences * static_cast<double>(shape.positions()) * 8;
  // Every block takes the place of the one before.
  const double offsets = offset_numbers(config, longest) / static_cast<double>(std::max<int64_t>(1, m.n_layers));
  out.evaluation = workers *
                   (std::max(static_cast<double>(longest.positions()), 1024.0) *
                        (values_per_layer(m, config.attention) + cross + logits + static_cast<double>(m.d_model)) +
                    offsets) *
                   size;
  return out;
}

MemoryEstimate estimate_probe_memory(const Config& config, double parameters, int64_t vocab_size) {
  const double size = bytes_a_number(config);
  const SequenceShape shape = training_shape(config);
  const auto sequences = static_cast<double>(config.train.batch_size);
  const double rows = sequences * static_cast<double>(shape.positions());
  return {.parameters = parameters * size * 2,
          .activations =
              (sequences * values_per_sequence(config, shape, vocab_size) + offset_numbers(config, shape)) * size * 2,
          .batch = rows * (8 + static_cast<double>(config.model.d_model) * size)};
}

void require_memory(const MemoryEstimate& e) {
  const double have = machine_bytes();
  require(
      e.total() <= have,
      "this run needs about {} bytes ({}: parameters and optimizer {}, activations {}, batch {}, evaluation {}), the "
      "machine has {}; make the model, train.batch_size, train.context_length, train.threads or eval.lengths smaller",
      fmt::format("{:.0f}", e.total()), bytes_text(e.total()), bytes_text(e.parameters), bytes_text(e.activations),
      bytes_text(e.batch), bytes_text(e.evaluation), bytes_text(have));
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} {}", bytes, kUnits[unit]) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace ropewalk
