#pragma once

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

/// Column of options.offset_bias for the offset of the last query to key 0.
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
  if (o.offset_bias) {
    p.offset_bias = o.offset_bias.value().data<T>() + first_bias_column(e, o);
    p.bias_stride = o.offset_bias.shape()[1];
  }
  if (o.relative_keys) {
    p.relative_keys = o.relative_keys.value().data<T>();
    p.clip = (o.relative_keys.shape()[0] - 1) / 2;
  }
  return p;
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
