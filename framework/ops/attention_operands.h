#pragma once

#include <array>

#include "framework/ops/attention_problem.h"
#include "framework/tape.h"

namespace ropewalk {

/// Extents of the operands of one call of attention.
struct AttentionExtents {
  int64_t B = 0, H = 0, G = 0, queries = 0, keys = 0, dk = 0, dv = 0;
};

/// An operand and where its heads lie in it.
struct AttentionOperand {
  Var var;
  int64_t first = 0;  ///< element where head 0 of sequence 0 begins
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  int64_t elements = 0;  ///< of the Var, those that are heads of this operand

  template <class T>
  HeadsView<T> view(T* data) const {
    if (data == nullptr) return {};
    return {data + first, batch_stride, head_stride, row_stride};
  }
  template <class T>
  HeadsView<const T> value() const {
    return view<const T>(var.value().data<T>());
  }
};

/// Extents of heads side by side, checked; without values dv is 0.
AttentionExtents attention_extents(const char* op, const Heads& q, const Heads& k, const Heads* v);
AttentionOperand attention_operand(const Heads& heads);

/// Throws unless first_key and key_end, where given, say which of `keys` keys belong to each of B sequences.
void check_sequences(const char* op, int64_t B, int64_t keys, std::span<const int64_t> first_key,
                     std::span<const int64_t> key_end);
/// Throws unless the options fit the extents and the number format of q.
void check_attention_operands(const char* op, const AttentionExtents& e, Var q, const AttentionOptions& options);

/// Heads that have relative keys of their own: all, or 1 where they share them.
int64_t keys_of_heads(const AttentionExtents& e, Var relative_keys);

/// Column of options.offset_bias, or of the distances, for the offset of the last query to key 0.
int64_t first_bias_column(const AttentionExtents& e, const AttentionOptions& options);

/// The problem of these extents and options, but for views, log-sum-exp and statistics.
template <class T>
AttentionProblem<T> attention_problem(const AttentionExtents& e, const AttentionOptions& o) {
  AttentionProblem<T> p;
  p.B = e.B;
  p.H = e.H;
  p.G = e.G;
  p.queries = p.lse_stride = e.queries;
  p.keys = e.keys;
  p.dk = e.dk;
  p.dv = e.dv;
  p.first_position = e.keys - e.queries;
  p.scale = static_cast<T>(o.scale);
  p.mask = o.mask;
  p.rotary = o.rotary;
  if (!o.first_key.empty()) p.first_key = o.first_key.data();
  if (!o.key_end.empty()) p.key_end = o.key_end.data();
  if (!o.positions.empty() && e.keys > 0) p.positions = o.positions.data();
  if (e.keys > 0 && e.queries > 0) p.first_offset = p.farthest();
  if (o.offset_bias) {
    p.offset_bias = o.offset_bias.value().data<T>() + first_bias_column(e, o);
    p.bias_stride = o.offset_bias.shape()[1];
  }
  if (o.distance_bias) {
    p.distance = o.distance_bias.distance.value().data<T>() + first_bias_column(e, o);
    p.normalizer = o.distance_bias.normalizer.value().data<T>();
    p.n_lines = o.distance_bias.lines.shape()[1];
    p.line_knots = o.distance_bias.lines.value().data<T>();
    p.line_slopes = p.line_knots + p.n_lines;
    p.line_values = p.line_slopes + e.H * p.n_lines;
  }
  if (o.query_bias) p.query_bias = o.query_bias.value().data<T>();
  if (o.relative_keys) {
    p.relative_keys = o.relative_keys.value().data<T>();
    p.relative_heads = keys_of_heads(e, o.relative_keys);
    p.clip = (o.relative_keys.shape()[0] - 1) / 2;
  }
  if (o.relative_values) {
    p.relative_values = o.relative_values.value().data<T>();
    p.clip = (o.relative_values.shape()[0] - 1) / 2;
  }
  return p;
}

/// What attention adds to scores and values, for its backward pass.
struct AttentionAdditions {
  Var offset_bias, query_bias, relative_keys, relative_values;
  DistanceBias distance_bias;
  int64_t bias_column;  ///< the first column of offset_bias, or of the distances, that is read

  AttentionAdditions(const AttentionExtents& e, const AttentionOptions& o)
      : offset_bias(o.offset_bias),
        query_bias(o.query_bias),
        relative_keys(o.relative_keys),
        relative_values(o.relative_values),
        distance_bias(o.distance_bias),
        bias_column(first_bias_column(e, o)) {}

  /// All that the result depends on.
  std::array<Var, 10> with(Var q, Var k, Var v) const {
    return {q,
            k,
            v,
            offset_bias,
            query_bias,
            relative_keys,
            relative_values,
            distance_bias.distance,
            distance_bias.normalizer,
            distance_bias.lines};
  }
};

/// Opens the gradients of the additions in `back`; they are added to.
template <class T>
void open_gradients(Tape& tape, const AttentionAdditions& additions, AttentionProblem<T>& back) {
  back.d_offset_bias = tape.gradient_accumulator<T>(additions.offset_bias);
  if (back.d_offset_bias != nullptr) back.d_offset_bias += additions.bias_column;
  back.d_distance = tape.gradient_accumulator<T>(additions.distance_bias.distance);
  if (back.d_distance != nullptr) back.d_distance += additions.bias_column;
  back.d_normalizer = tape.gradient_accumulator<T>(additions.distance_bias.normalizer);
  if (T* d_lines = tape.gradient_accumulator<T>(additions.distance_bias.lines); d_lines != nullptr) {
    back.d_line_slopes = d_lines + back.n_lines;
    back.d_line_values = back.d_line_slopes + back.H * back.n_lines;
  }
  back.d_query_bias = tape.gradient_accumulator<T>(additions.query_bias);
  back.d_relative_keys = tape.gradient_accumulator<T>(additions.relative_keys);
  back.d_relative_values = tape.gradient_accumulator<T>(additions.relative_values);
}

/// Opens the gradients of q, k and v in `back`, and says for each whether to store or to add.
template <class T>
void open_gradients(Tape& tape, const AttentionOperand& q, const AttentionOperand& k, const AttentionOperand& v,
                    AttentionProblem<T>& back) {
  const auto apart = [](const AttentionOperand& a, const AttentionOperand& b) {
    return a.var.id == b.var.id && a.first != b.first;
  };
  // The heads may be a part of their Var, whose rest has to be zero where nothing is there to add to.
  const auto open = [&](const AttentionOperand& of) -> GradientSink<T> {
    int64_t written = of.elements;
    for (const AttentionOperand* other : {&q, &k, &v}) written += apart(of, *other) ? other->elements : 0;
    if (written >= of.var.value().elements()) return tape.gradient_sink<T>(of.var);
    return {tape.gradient_accumulator<T>(of.var), true};
  };
  // Parts of one Var share what is known of it: whether anything is there to add to. Where the same part stands for two
  // operands, the second must add to what the first has stored.
  const GradientSink<T> dq = open(q);
  const GradientSink<T> dk = apart(k, q) ? dq : open(k);
  const GradientSink<T> dv = apart(v, k) ? dk : apart(v, q) ? dq : open(v);
  back.dq = q.view<T>(dq.data);
  back.dk_out = k.view<T>(dk.data);
  back.dv_out = v.view<T>(dv.data);
  back.add_dq = dq.accumulate;
  back.add_dk = dk.accumulate;
  back.add_dv = dv.accumulate;
}

}  // namespace ropewalk
