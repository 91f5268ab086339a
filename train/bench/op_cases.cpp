#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "framework/ops/activation.h"
#include "framework/ops/attention.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/dropout.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/embedding.h"
#include "framework/ops/fire.h"
#include "framework/ops/hadamard.h"
#include "framework/ops/head_norm.h"
#include "framework/ops/heads.h"
#include "framework/ops/index_loss.h"
#include "framework/ops/index_scores.h"
#include "framework/ops/linear.h"
#include "framework/ops/linear_activation.h"
#include "framework/ops/linear_cross_entropy.h"
#include "framework/ops/norm.h"
#include "framework/ops/relative_bias.h"
#include "framework/ops/rope.h"
#include "framework/ops/rotate_heads.h"
#include "framework/ops/select_top_k.h"
#include "framework/ops/selected_attention.h"
#include "framework/ops/slice.h"
#include "framework/ops/softmax.h"
#include "framework/random.h"
#include "train/bench/ops.h"
#include "train/flops.h"

namespace ropewalk {
namespace {

constexpr int64_t kHiddenUnits = 32;  ///< of FIRE

/// The sizes of a micro-batch, and what the cases share.
struct Sizes {
  explicit Sizes(const Config& config)
      : config(config),
        T(config.train.context_length),
        B(micro_batch_sequences(config)),
        N(B * T),
        D(config.model.d_model),
        F(config.model.d_ff),
        V(config.model.vocab_size),
        H(config.model.n_heads),
        G(config.model.n_kv_heads),
        dh(config.model.d_head),
        heads(H * dh),
        packed((H + 2 * G) * dh),
        dtype(dtype_of(config.train)) {}

  const Config& config;
  int64_t T, B, N, D, F, V, H, G, dh, heads, packed;
  DType dtype;

  /// Normal values, the same again after 65,536: no op's time depends on more of them, and to draw all those of a long
  /// context takes longer than the ops.
  Tensor random(const Shape& shape, double scale = 1.0, double shift = 0.0) const {
    constexpr int64_t kDrawn = 65'536;
    Tensor out = Tensor::zeros(shape, dtype);
    const int64_t n = out.elements();
    for (int64_t i = 0; i < std::min(n, kDrawn); ++i) {
      out.set(i, shift + scale * random_normal({.seed = 1}, static_cast<uint64_t>(i)));
    }
    const auto width = static_cast<int64_t>(size_of(dtype));
    for (int64_t done = kDrawn; done < n; done += kDrawn) {
      std::memcpy(static_cast<std::byte*>(out.bytes) + done * width, out.bytes,
                  static_cast<std::size_t>(std::min(kDrawn, n - done) * width));
    }
    return out;
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> out(static_cast<std::size_t>(N));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<int32_t>(random_uniform({.seed = 2}, i) * static_cast<double>(V));
    }
    return out;
  }
  std::shared_ptr<const RotaryTable> rotary() const {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < dh / 2; ++i) {
      frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dh)));
    }
    return std::make_shared<const RotaryTable>(
        make_rotary_table(frequencies, 1.0, 0, T, RopePairing::interleaved, dtype));
  }
  double bytes(int64_t elements) const { return static_cast<double>(elements) * static_cast<double>(size_of(dtype)); }
};

OpCase linear_case(const Sizes& s, const std::string& variant, int64_t in, int64_t out, bool bias) {
  OpCase c{.op = "linear",
           .variant = variant,
           .shape = fmt::format("[{}, {}] -> {}", s.N, in, out),
           .inputs = {s.random({s.N, in}), s.random({out, in}, 0.02)},
           .run = [](Tape&, const std::vector<Var>& x) { return linear(x[0], x[1], x.size() > 2 ? x[2] : Var{}); },
           .forward_bytes = s.bytes(s.N * in + out * in + s.N * out),
           .backward_bytes = s.bytes(s.N * out + 2 * (s.N * in + out * in)),
           .forward_flops = 2 * static_cast<double>(s.N) * static_cast<double>(in) * static_cast<double>(out)};
  if (bias) c.inputs.push_back(s.random({out}));
  return c;
}

/// The same with something done to the product: `more` operands beyond x and the weight, and what the op makes of them.
OpCase fused_linear_case(const Sizes& s, const char* op, const std::string& variant, int64_t in, int64_t out,
                         const std::vector<Tensor>& more, double outputs,
                         std::function<Var(Tape&, const std::vector<Var>&)> run) {
  OpCase c = linear_case(s, variant, in, out, false);
  c.op = op;
  if (c.op == "gated_linear") c.forward_flops *= 2;
  c.gradient_in_forward = c.op == "linear_cross_entropy";
  c.inputs.insert(c.inputs.end(), more.begin(), more.end());
  c.run = std::move(run);
  const double extra = s.bytes(s.N * out) * outputs;
  c.forward_bytes += extra;
  c.backward_bytes += extra;
  return c;
}

enum class Bias { none, offset, distance, relative };

/// The distance bias of FIRE, of queries that all measure alike.
void add_distance_bias(const Sizes& s, OpCase& c) {
  Tensor distance = Tensor::zeros({2 * s.T - 1}, s.dtype);
  for (int64_t n = 0; n < distance.elements(); ++n)
    distance.set(n, std::log1p(0.1 * std::abs(static_cast<double>(n + 1 - s.T))));
  Tensor lines = s.random({2 * s.H + 1, kHiddenUnits + 1});
  for (int64_t n = 0; n < kHiddenUnits; ++n) lines.set(n, static_cast<double>(n) / kHiddenUnits);
  c.inputs.insert(c.inputs.end(),
                  {distance, s.random({s.T}, 0.0, 1 / std::log1p(0.1 * static_cast<double>(s.T))), lines});
}

/// Attention on a packed projection under the mask of the configuration.
OpCase attention_case(const Sizes& s, const std::string& variant, Bias bias, bool rotate) {
  // Heads of d_head columns, also where latent attention would have a rotated stream beside them.
  Config multi_head = s.config;
  multi_head.attention.kind = AttentionKind::mha;
  multi_head.position.encoding = "none";
  const FlopCount heads_only = count_flops(multi_head, s.T);
  const AttentionConfig& a = s.config.attention;
  const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(s.dh)),
                                 .mask = {a.causal, a.window_radius, a.global_tokens}};
  constexpr int64_t kClip = 16;
  const int64_t q = s.N * s.heads;
  OpCase c{
      .op = "attention_packed",
      .variant = variant,
      .shape = fmt::format("[{}, {}, {}, {}]", s.B, s.H, s.T, s.dh),
      .inputs = {s.random({s.B, s.T, s.packed})},
      .run =
          [H = s.H, G = s.G, options, rotary = rotate ? s.rotary() : nullptr, bias](Tape&, const std::vector<Var>& x) {
            AttentionOptions o = options;
            o.rotary = rotary.get();
            if (bias == Bias::offset) o.offset_bias = x[1];
            if (bias == Bias::distance) o.distance_bias = {x[1], x[2], x[3]};
            if (bias == Bias::relative) o.relative_keys = x[1];
            return attention_packed(x[0], H, G, o);
          },
      .forward_bytes = s.bytes(s.N * s.packed + q),
      .backward_bytes = s.bytes(2 * (s.N * s.packed + q)),
      .forward_flops = heads_only.attention / static_cast<double>(s.config.model.n_layers) * static_cast<double>(s.N)};
  if (bias == Bias::offset) c.inputs.push_back(s.random({s.H, 2 * s.T - 1}));
  if (bias == Bias::relative) c.inputs.push_back(s.random({2 * kClip + 1, s.dh}));
  if (bias == Bias::distance) add_distance_bias(s, c);
  return c;
}

/// An op all of whose operands have the shape of its result; backward reads and writes `backward_moves` such tensors.
OpCase elementwise_case(const Sizes& s, const std::string& op, const std::string& variant, const Shape& shape,
                        int64_t operands, int64_t backward_moves,
                        const std::function<Var(const std::vector<Var>&)>& run) {
  OpCase c{.op = op,
           .variant = variant,
           .shape = shape.to_string(),
           .run = [run](Tape&, const std::vector<Var>& x) { return run(x); },
           .forward_bytes = s.bytes((operands + 1) * shape.elements()),
           .backward_bytes = s.bytes(backward_moves * shape.elements())};
  for (int64_t i = 0; i < operands; ++i) c.inputs.push_back(s.random(shape));
  return c;
}

OpCase norm_case(const Sizes& s, const std::string& op, bool bias) {
  const Shape shape{s.B, s.T, s.D};
  const double eps = s.config.model.norm_eps;
  OpCase c{.op = op,
           .shape = shape.to_string(),
           .inputs = {s.random(shape), s.random({s.D})},
           .run =
               [eps, bias](Tape&, const std::vector<Var>& x) {
                 return bias ? layer_norm(x[0], x[1], x[2], eps) : rms_norm(x[0], x[1], eps);
               },
           .forward_bytes = s.bytes(2 * s.N * s.D),
           .backward_bytes = s.bytes(3 * s.N * s.D)};
  if (bias) c.inputs.push_back(s.random({s.D}));
  return c;
}

/// Attention on queries, keys and values that lie apart, head by head.
OpCase separate_attention_case(const Sizes& s) {
  OpCase c = attention_case(s, "", Bias::none, false);
  const AttentionConfig& a = s.config.attention;
  const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(s.dh)),
                                 .mask = {a.causal, a.window_radius, a.global_tokens}};
  c.op = "attention";
  c.inputs = {s.random({s.B, s.H, s.T, s.dh}), s.random({s.B, s.G, s.T, s.dh}), s.random({s.B, s.G, s.T, s.dh})};
  c.run = [options](Tape&, const std::vector<Var>& x) { return attention(x[0], x[1], x[2], options); };
  return c;
}

/// An indexer as wide as a head and with as many heads, and a selection of an eighth of the context.
struct IndexerSizes {
  explicit IndexerSizes(const Sizes& s)
      : d(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(s.dh)))),
        operands{s.random({s.B, s.T, s.H * d}), s.random({s.B, s.T, d}), s.random({s.B, s.T, s.H})},
        width(std::max<int64_t>(1, s.T / 8)),
        mask{s.config.attention.causal, s.config.attention.window_radius, s.config.attention.global_tokens} {
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    const SelectedKeys keys =
        select_top_k(tape.constant(operands[0]), tape.constant(operands[1]), tape.constant(operands[2]), width, mask);
    positions = std::make_shared<const std::vector<int32_t>>(keys.positions, keys.positions + s.N * keys.width);
    for (int64_t t = 0; t < s.N; ++t) selected_pairs += static_cast<double>(keys.count(t / s.T, t % s.T));
    for (int64_t i = 0; i < s.T; ++i) {
      visible_pairs += static_cast<double>(s.B * VisibleKeys(mask, i, s.T).count());
    }
  }

  int64_t d;
  std::vector<Tensor> operands;  ///< q, k and w
  int64_t width;
  AttentionMask mask;
  std::shared_ptr<const std::vector<int32_t>> positions;
  double selected_pairs = 0, visible_pairs = 0;  ///< of a query and a key, in all sequences
};

/// Attention over selected keys, on a packed projection or on queries, keys and values that lie apart.
OpCase selected_attention_case(const Sizes& s, const IndexerSizes& indexer, bool packed) {
  const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(s.dh)), .mask = indexer.mask};
  OpCase c{.op = "selected_attention",
           .variant = packed ? "packed" : "",
           .shape = fmt::format("[{}, {}, {}, {}] of {}", s.B, s.H, s.T, s.dh, indexer.width),
           .run =
               [packed, options, positions = indexer.positions, B = s.B, T = s.T, H = s.H, G = s.G, dh = s.dh,
                width = indexer.width](Tape&, const std::vector<Var>& x) {
                 const SelectedKeys selected{B, T, width, positions->data()};
                 const Heads q{x[0], 0, H, dh};
                 return packed ? selected_attention(q, Heads{x[0], H * dh, G, dh}, Heads{x[0], (H + G) * dh, G, dh},
                                                    selected, options)
                               : selected_attention(q, Heads{x[1], 0, G, dh}, Heads{x[2], 0, G, dh}, selected, options);
               },
           .forward_bytes = s.bytes(s.N * (s.packed + s.heads)),
           .backward_bytes = s.bytes(2 * s.N * (s.packed + s.heads)),
           .forward_flops = 4 * indexer.selected_pairs * static_cast<double>(s.heads)};
  if (packed) {
    c.inputs = {s.random({s.B, s.T, s.packed})};
  } else {
    c.inputs = {s.random({s.B, s.T, s.heads}), s.random({s.B, s.T, s.G * s.dh}), s.random({s.B, s.T, s.G * s.dh})};
  }
  return c;
}

OpCase index_scores_case(const Sizes& s, const IndexerSizes& indexer) {
  const auto operands = s.N * ((s.H + 1) * indexer.d + s.H);
  return {.op = "index_scores",
          .shape = fmt::format("[{}, {}, {}, {}]", s.B, s.H, s.T, indexer.d),
          .inputs = indexer.operands,
          .run = [](Tape&, const std::vector<Var>& x) { return index_scores(x[0], x[1], x[2]); },
          .forward_bytes = s.bytes(operands + s.N * s.T),
          .backward_bytes = s.bytes(2 * operands + s.N * s.T),
          .forward_flops = 2 * static_cast<double>(s.N * s.T) * static_cast<double>(s.H * indexer.d)};
}

/// The indexer's loss over all visible keys or the selected ones, with the attention's products and its own.
OpCase index_loss_case(const Sizes& s, const IndexerSizes& indexer, bool selecting) {
  const int64_t operands = s.N * ((s.H + 1) * indexer.d + s.H);
  const double pairs = selecting ? indexer.selected_pairs : indexer.visible_pairs;
  const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(s.dh)), .mask = indexer.mask};
  return {.op = "index_loss",
          .variant = selecting ? "selected" : "",
          .shape = fmt::format("[{}, {}, {}, {}]", s.B, s.H, s.T, indexer.d),
          .inputs = indexer.operands,
          .run =
              [selecting, options, positions = indexer.positions, qkv = s.random({s.B, s.T, s.packed}), B = s.B,
               T = s.T, H = s.H, G = s.G, dh = s.dh, width = indexer.width](Tape& tape, const std::vector<Var>& x) {
                const Var projection = tape.constant(qkv);
                const IndexTeacher teacher{
                    .q = {projection, 0, H, dh}, .k = {projection, H * dh, G, dh}, .options = options};
                const auto queries = static_cast<double>(B * T);
                return selecting ? index_loss(x[0], x[1], x[2], teacher, SelectedKeys{B, T, width, positions->data()},
                                              queries)
                                 : index_loss(x[0], x[1], x[2], teacher, queries);
              },
          .forward_bytes = s.bytes(2 * operands + s.N * (s.H + s.G) * s.dh),
          .backward_bytes = s.bytes(2 * operands),
          // Three times this: the attention's scores are made once, the indexer's have a backward.
          .forward_flops = 2 * pairs * (static_cast<double>(s.H * indexer.d) + static_cast<double>(s.heads) / 3),
          .gradient_in_forward = true};
}

}  // namespace

int64_t micro_batch_sequences(const Config& config) {
  return plan_batch(config).micro_batch;
}

std::vector<OpCase> op_cases(const Config& config) {
  const Sizes s(config);
  const bool bias = config.model.bias;
  const Shape hidden{s.B, s.T, s.D};
  const Shape inner{s.B, s.T, s.F};
  const Shape head_major{s.B, s.H, s.T, s.dh};
  const Shape batch{s.B, s.T};
  const int64_t ND = s.N * s.D;
  const int64_t offsets = 2 * s.T - 1;
  const int64_t half = (s.dh + 1) / 2;  // columns of a stream beside each head
  const auto ids = std::make_shared<const std::vector<int32_t>>(s.ids());
  constexpr int64_t kBuckets = 32;
  const auto buckets = std::make_shared<std::vector<int32_t>>(static_cast<std::size_t>(offsets));
  for (std::size_t i = 0; i < buckets->size(); ++i) (*buckets)[i] = static_cast<int32_t>(i % kBuckets);
  using In = const std::vector<Var>&;
  const IndexerSizes indexer(s);

  std::vector<OpCase> cases = {
      linear_case(s, "query, key, value", s.D, s.packed, bias),
      linear_case(s, "attention output", s.heads, s.D, bias),
      linear_case(s, "ffn up", s.D, s.F, bias),
      linear_case(s, "ffn down", s.F, s.D, bias),
      linear_case(s, "head", s.D, s.V, false),
      fused_linear_case(s, "linear_add", "ffn down", s.F, s.D, {s.random({s.D}), s.random({s.N, s.D})}, 1,
                        [](Tape&, In x) { return linear_add(x[0], x[1], x[2], x[3]); }),
      fused_linear_case(s, "linear_activation", "ffn up, gelu", s.D, s.F, {s.random({s.F})}, 1,
                        [](Tape&, In x) { return linear_activation(x[0], x[1], x[2], ActivationFunction::gelu); }),
      fused_linear_case(s, "gated_linear", "swiglu", s.D, s.F, {s.random({s.F, s.D}, 0.02)}, 2,
                        [](Tape&, In x) { return gated_linear(x[0], x[2], {}, x[1], {}, ActivationFunction::silu); }),
      fused_linear_case(s, "linear_cross_entropy", "head", s.D, s.V, {}, 0,
                        [ids, n = s.N](Tape&, In x) {
                          return linear_cross_entropy(x[0], x[1], ids->data(), static_cast<double>(n));
                        }),
      attention_case(s, "", Bias::none, false),
      attention_case(s, "offset bias", Bias::offset, false),
      attention_case(s, "distance bias", Bias::distance, false),
      attention_case(s, "relative keys", Bias::relative, false),
      separate_attention_case(s),
      elementwise_case(s, "activation", "relu", inner, 1, 3,
                       [](In x) { return activation(x[0], ActivationFunction::relu); }),
      elementwise_case(s, "activation", "gelu", inner, 1, 3,
                       [](In x) { return activation(x[0], ActivationFunction::gelu); }),
      elementwise_case(s, "activation", "gelu_tanh", inner, 1, 3,
                       [](In x) { return activation(x[0], ActivationFunction::gelu_tanh); }),
      elementwise_case(s, "activation", "silu", inner, 1, 3,
                       [](In x) { return activation(x[0], ActivationFunction::silu); }),
      elementwise_case(s, "gated_activation", "silu", inner, 2, 5,
                       [](In x) { return gated_activation(x[0], x[1], ActivationFunction::silu); }),
      elementwise_case(s, "gated_activation", "gelu", inner, 2, 5,
                       [](In x) { return gated_activation(x[0], x[1], ActivationFunction::gelu); }),
      norm_case(s, "layer_norm", true),
      norm_case(s, "rms_norm", false),
      {.op = "head_norm",
       .shape = Shape{s.B, s.T, s.packed}.to_string(),
       .inputs = {s.random({s.B, s.T, s.packed}), s.random({s.dh}), s.random({s.dh})},
       .run = [H = s.H, G = s.G, eps = config.model.norm_eps](Tape&,
                                                              In x) { return head_norm(x[0], x[1], x[2], H, G, eps); },
       .forward_bytes = s.bytes(2 * s.N * s.packed),
       .backward_bytes = s.bytes(3 * s.N * s.packed)},
      elementwise_case(s, "add", "", hidden, 2, 3, [](In x) { return add(x[0], x[1]); }),
      elementwise_case(s, "scale_add", "", hidden, 2, 3, [](In x) { return scale_add(x[0], 1.5, x[1]); }),
      elementwise_case(s, "scale", "", hidden, 1, 2, [](In x) { return scale(x[0], 1.5); }),
      elementwise_case(s, "dropout", "", hidden, 1, 2, [](In x) { return dropout(x[0], 0.1, 1, 1, 0, 0); }),
      elementwise_case(s, "hadamard", "", {s.N * s.H, indexer.d}, 1, 2, [](In x) { return hadamard(x[0]); }),
      index_scores_case(s, indexer),
      index_loss_case(s, indexer, false),
      index_loss_case(s, indexer, true),
      selected_attention_case(s, indexer, false),
      selected_attention_case(s, indexer, true),
      elementwise_case(s, "softmax", "", {s.N, s.V}, 1, 3, [](In x) { return softmax(x[0]); }),
      {.op = "embedding",
       .shape = fmt::format("[{}, {}] of [{}, {}]", s.B, s.T, s.V, s.D),
       .inputs = {s.random({s.V, s.D})},
       .run = [ids, batch](Tape&, In x) { return embedding(ids->data(), batch, x[0]); },
       .forward_bytes = s.bytes(ND + std::min(s.N, s.V) * s.D),
       .backward_bytes = s.bytes(ND + s.V * s.D)},
      {.op = "add_positions",
       .shape = hidden.to_string(),
       .inputs = {s.random(hidden), s.random({s.T, s.D})},
       .run = [](Tape&, In x) { return add_positions(x[0], x[1]); },
       .forward_bytes = s.bytes(2 * ND + s.T * s.D),
       .backward_bytes = s.bytes(2 * ND + s.T * s.D)},
      {.op = "last_rows",
       .shape = fmt::format("{} of {}", (s.T + 1) / 2, hidden.to_string()),
       .inputs = {s.random(hidden)},
       .run = [count = (s.T + 1) / 2](Tape&, In x) { return last_rows(x[0], count); },
       .forward_bytes = s.bytes(2 * s.B * ((s.T + 1) / 2) * s.D),
       .backward_bytes = s.bytes(s.B * ((s.T + 1) / 2) * s.D + ND)},
      {.op = "join_heads",
       .shape = fmt::format("[{}, {}, {} x ({} + {})]", s.B, s.T, s.H, half, s.dh),
       .inputs = {s.random({s.B, s.T, half}), s.random({s.B, s.T, s.heads})},
       .run =
           [half, H = s.H, dh = s.dh](Tape&, In x) {
             return join_heads(Heads{x[0], 0, 1, half}, Heads{x[1], 0, H, dh}, H);
           },
       .forward_bytes = s.bytes(s.N * (half + s.heads + s.H * (half + s.dh))),
       .backward_bytes = s.bytes(s.N * (half + s.heads + s.H * (half + s.dh)))},
      {.op = "head_linear",
       .shape = fmt::format("{} heads of {} -> {}", s.H, s.dh, 4 * s.dh),
       .inputs = {s.random({s.B, s.T, s.heads}), s.random({s.heads, 4 * s.dh})},
       .run =
           [H = s.H, dh = s.dh](Tape&, In x) {
             return head_linear(Heads{x[0], 0, H, dh}, x[1], false);
           },
       .forward_bytes = s.bytes(s.N * 5 * s.heads + 4 * s.heads * s.dh),
       .backward_bytes = s.bytes(s.N * 10 * s.heads + 8 * s.heads * s.dh),
       .forward_flops = 2 * static_cast<double>(s.N * s.heads * 4 * s.dh)},
      {.op = "cross_entropy",
       .shape = fmt::format("[{}, {}]", s.N, s.V),
       .inputs = {s.random({s.N, s.V})},
       .run = [ids, n = s.N](Tape&, In x) { return cross_entropy(x[0], ids->data(), static_cast<double>(n)); },
       .forward_bytes = s.bytes(s.N * s.V),
       .backward_bytes = s.bytes(2 * s.N * s.V)},
      {.op = "bucket_bias",
       .shape = fmt::format("[{}, {}]", s.H, offsets),
       .inputs = {s.random({kBuckets, s.H})},
       .run = [buckets](Tape&, In x) { return bucket_bias(x[0], *buckets); },
       .forward_bytes = s.bytes(s.H * offsets),
       .backward_bytes = s.bytes(s.H * offsets)},
      {.op = "alibi_bias",
       .shape = fmt::format("[{}, {}]", s.H, offsets),
       .inputs = {s.random({s.H})},
       .run = [first = 1 - s.T, offsets](Tape&, In x) { return alibi_bias(x[0], first, offsets); },
       .forward_bytes = s.bytes(s.H * offsets),
       .backward_bytes = s.bytes(s.H * offsets)},
      {.op = "kerple_bias",
       .shape = fmt::format("[{}, {}]", s.H, offsets),
       .inputs = {s.random({s.H}, 0.0, 0.5), s.random({s.H}, 0.0, 0.5)},
       .run = [offsets](Tape&, In x) { return kerple_bias(x[0], x[1], offsets); },
       .forward_bytes = s.bytes(s.H * offsets),
       .backward_bytes = s.bytes(s.H * offsets)},
      {.op = "log_distance",
       .shape = fmt::format("[{}]", offsets),
       .inputs = {s.random({1}, 0.0, 0.1)},
       .run = [first = 1 - s.T, offsets](Tape&, In x) { return log_distance(x[0], first, offsets); },
       .forward_bytes = s.bytes(offsets),
       .backward_bytes = s.bytes(offsets)},
      {.op = "log_normalizer",
       .shape = fmt::format("[{}]", s.T),
       .inputs = {s.random({1}, 0.0, 0.1), s.random({1}, 0.0, 1.0)},
       .run = [T = s.T](Tape&, In x) { return log_normalizer(x[0], x[1], static_cast<double>(T) / 2, T); },
       .forward_bytes = s.bytes(s.T),
       .backward_bytes = s.bytes(2 * s.T)},
      {.op = "relu_lines",
       .shape = fmt::format("[{}, {}]", s.H, kHiddenUnits),
       .inputs = {s.random({kHiddenUnits}), s.random({kHiddenUnits}), s.random({s.H, kHiddenUnits}), s.random({s.H})},
       .run = [](Tape&, In x) { return relu_lines(x[0], x[1], x[2], x[3]); },
       .forward_bytes = s.bytes(3 * s.H * kHiddenUnits),
       .backward_bytes = s.bytes(4 * s.H * kHiddenUnits)},
      {.op = "relative_key_bias",
       .shape = fmt::format("[{}, {}]", s.H, offsets),
       .inputs = {s.random({offsets, s.H * s.dh}), s.random({s.H, s.dh}), s.random({s.H, s.dh})},
       .run = [](Tape&, In x) { return relative_key_bias(x[0], x[1], x[2], 0.5); },
       .forward_bytes = s.bytes(s.H * offsets * (s.dh + 1)),
       .backward_bytes = s.bytes(s.H * offsets * (2 * s.dh + 1))},
  };
  if (s.dh % 2 == 0) {  // what rotates pairs
    cases.push_back(attention_case(s, "rotary", Bias::none, true));
    cases.push_back(
        elementwise_case(s, "rope", "", head_major, 1, 2, [table = s.rotary()](In x) { return rope(x[0], *table); }));
    cases.push_back(elementwise_case(s, "rotate_heads", "", {s.B, s.T, s.heads}, 1, 2,
                                     [table = s.rotary(), H = s.H, dh = s.dh](In x) {
                                       return rotate_heads(Heads{x[0], 0, H, dh}, *table, RotarySide::queries);
                                     }));
  }
  return cases;
}

}  // namespace ropewalk
