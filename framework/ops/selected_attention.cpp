#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/selected_attention.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/selected_rows-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/selected_attention.h"
#include "framework/ops/selected_attention_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// Attention of the heads of one key/value head of one sequence; `keys` are those that its queries select.
template <class T>
class Group {
 public:
  Group(const AttentionProblem<T>& problem, const SelectedKeys& keys, const SelectedScratch<T>& scratch)
      : p(problem), selected(keys), w(scratch) {}

  void mark_selected() {
    std::fill(w.is_selected, w.is_selected + p.keys, false);
    for (int64_t t = 0; t < p.queries; ++t) {
      const int32_t* index = selected.row(0, t);
      for (int64_t n = 0; n < selected.count(0, t); ++n) w.is_selected[index[n]] = true;
    }
  }

  void pack_relative() {
    pack_relative_keys(p, w.relative);
    for (int64_t r = 0; p.relative_values != nullptr && r < p.relative_rows(); ++r) {
      pack_row<T>(p.relative_values + r * p.dv, p.dv, T(1), {}, w.relative_values + r * w.dv_pad);
    }
  }

  void pack_keys(int64_t g) {
    for (int64_t j = 0; j < p.keys; ++j) {
      if (!w.is_selected[j]) continue;
      pack_row<T>(p.k.head(0, g) + j * p.k.row_stride, p.dk, T(1), key_turn(j), w.k + j * w.dk_pad);
      pack_row<T>(p.v.head(0, g) + j * p.v.row_stride, p.dv, T(1), {}, w.v + j * w.dv_pad);
    }
  }

  void forward(int64_t h) {
    for (int64_t t = 0; t < p.queries; ++t) {
      const int32_t* index = selected.row(0, t);
      const int64_t n = selected.count(0, t);
      scores(h, t, index, n);
      T greatest = 0;
      std::copy(w.s, w.s + n, w.p);
      const T sum = exponentiate(w.p, n, greatest);
      T& lse = p.lse[h * p.lse_stride + t];
      T* y = p.y.head(0, h) + t * p.y.row_stride;
      if (sum == 0) {
        std::fill(y, y + p.dv, T(0));
        lse = std::numeric_limits<T>::infinity();
        continue;
      }
      sum_rows<T>(w.p, {w.v, w.dv_pad}, index, n, false, w.row);
      if (p.relative_values != nullptr) {
        sum_rows<T>(w.p, {w.relative_values, w.dv_pad}, w.relative_index, n, true, w.row);
      }
      const T inverse = T(1) / sum;
      vectorise<T>(p.dv, [&](auto d, int64_t c)
                             HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, w.row + c), hn::Set(d, inverse)), d, y + c); });
      lse = greatest + std::log(sum);
      if (p.statistics == nullptr) continue;
      T dot = 0;
      for (int64_t j = 0; j < n; ++j) dot += w.p[j] == 0 ? T(0) : w.p[j] * w.s[j];
      p.statistics->entropy[h] += static_cast<double>(lse - dot * inverse);
      p.statistics->max_logit[h] = std::max(p.statistics->max_logit[h], static_cast<double>(greatest));
    }
  }

  void backward(int64_t h) {
    for (int64_t t = 0; t < p.queries; ++t) {
      const int32_t* index = selected.row(0, t);
      const T lse = p.lse[h * p.lse_stride + t];
      // A query that sees nothing passes nothing.
      const int64_t n = lse == std::numeric_limits<T>::infinity() ? 0 : selected.count(0, t);
      scores(h, t, index, n);
      pack_row<T>(p.dy.head(0, h) + t * p.dy.row_stride, p.dv, T(1), {}, w.dy);
      const T* y = p.y.head(0, h) + t * p.y.row_stride;
      const T delta = sum_of<T>(
          p.dv, [&](auto d, int64_t c) HWY_ATTR { return hn::Mul(hn::LoadU(d, w.dy + c), hn::LoadU(d, y + c)); });
      dot_rows<T>(w.dy, {w.v, w.dv_pad}, index, n, false, w.ds);
      if (p.relative_values != nullptr) {
        dot_rows<T>(w.dy, {w.relative_values, w.dv_pad}, w.relative_index, n, true, w.ds);
      }
      vectorise<T>(n, [&](auto d, int64_t j) HWY_ATTR {
        const auto e = exp_keeping_nan(d, hn::Sub(hn::LoadU(d, w.s + j), hn::Set(d, lse)));
        hn::StoreU(e, d, w.p + j);
        hn::StoreU(hn::Mul(e, hn::Sub(hn::LoadU(d, w.ds + j), hn::Set(d, delta))), d, w.ds + j);
      });
      add_to_rows<T>(w.p, w.dy, index, n, {w.dv, w.dv_pad});
      if (p.relative_values != nullptr) {
        add_to_rows<T>(w.p, w.dy, w.relative_index, n, {w.d_relative_values, w.dv_pad});
      }
      add_to_rows<T>(w.ds, w.q, index, n, {w.dk, w.dk_pad});
      sum_rows<T>(w.ds, {w.k, w.dk_pad}, index, n, false, w.row);
      const int64_t i = p.position(t);
      if (p.relative_keys != nullptr) {
        sum_rows<T>(w.ds, {relative_of(h, w.relative), w.dk_pad}, w.relative_index, n, true, w.row);
        add_to_rows<T>(w.ds, w.q, w.relative_index, n, {relative_of(h, w.d_relative), w.dk_pad});
      }
      if (p.d_offset_bias != nullptr) {
        T* d_bias = p.d_offset_bias + h * p.bias_stride;
        for (int64_t j = 0; j < n; ++j) d_bias[p.offset_column(i, index[j])] += w.ds[j];
      }
      for (int64_t j = 0; p.distance != nullptr && j < n; ++j) p.add_distance_gradient(h, i, index[j], w.ds[j]);
      if (p.d_query_bias != nullptr) {
        std::copy_n(w.row, w.dk_pad, w.query_row);
        unpack_row<T>(w.query_row, p.dk, p.scale, query_turn(i), true, p.d_query_bias + h * p.dk);
      }
      if (p.dq) {
        unpack_row<T>(w.row, p.dk, p.scale, query_turn(i), p.add_dq, p.dq.head(0, h) + t * p.dq.row_stride);
      }
    }
  }

  void clear_key_gradients() {
    std::fill(w.dk, w.dk + p.keys * w.dk_pad, T(0));
    std::fill(w.dv, w.dv + p.keys * w.dv_pad, T(0));
  }

  void unpack_key_gradients(int64_t g) {
    for (int64_t j = 0; p.dk_out && j < p.keys; ++j) {
      unpack_row<T>(w.dk + j * w.dk_pad, p.dk, T(1), key_turn(j), p.add_dk,
                    p.dk_out.head(0, g) + j * p.dk_out.row_stride);
    }
    for (int64_t j = 0; p.dv_out && j < p.keys; ++j) {
      unpack_row<T>(w.dv + j * w.dv_pad, p.dv, T(1), {}, p.add_dv, p.dv_out.head(0, g) + j * p.dv_out.row_stride);
    }
  }

  void clear_relative_gradients() {
    if (p.relative_keys != nullptr) std::fill_n(w.d_relative, p.relative_heads * p.relative_rows() * w.dk_pad, T(0));
    if (p.relative_values != nullptr) std::fill_n(w.d_relative_values, p.relative_rows() * w.dv_pad, T(0));
  }

  void unpack_relative_gradients() {
    T* d_keys = w.d_relative;
    for (int64_t h = 0; p.d_relative_keys != nullptr && h < p.relative_heads; ++h) {
      for (int64_t r = 0; r < p.relative_rows(); ++r, d_keys += w.dk_pad) {
        unpack_row<T>(d_keys, p.dk, T(1), {}, true, p.d_relative_keys + (r * p.relative_heads + h) * p.dk);
      }
    }
    for (int64_t r = 0; p.d_relative_values != nullptr && r < p.relative_rows(); ++r) {
      unpack_row<T>(w.d_relative_values + r * w.dv_pad, p.dv, T(1), {}, true, p.d_relative_values + r * p.dv);
    }
  }

 private:
  Turn key_turn(int64_t j) const { return {p.rotary, RotarySide::keys, j}; }
  Turn query_turn(int64_t i) const { return {p.rotary, RotarySide::queries, i}; }

  /// Where the relative keys of a head begin in such memory as w.relative.
  T* relative_of(int64_t h, T* memory) const { return memory + p.relative_head(h) * p.relative_rows() * w.dk_pad; }

  /// w.q = the query, w.s [n] = its scores, w.relative_index [n] = rows of what is relative, where there is any.
  void scores(int64_t h, int64_t t, const int32_t* index, int64_t n) {
    const int64_t i = p.position(t);
    pack_query(p, h, t, w.q);
    dot_rows<T>(w.q, {w.k, w.dk_pad}, index, n, false, w.s);
    if (p.relative_keys != nullptr || p.relative_values != nullptr) {
      for (int64_t j = 0; j < n; ++j) w.relative_index[j] = static_cast<int32_t>(p.relative_row(i, index[j]));
    }
    if (p.relative_keys != nullptr) {
      dot_rows<T>(w.q, {relative_of(h, w.relative), w.dk_pad}, w.relative_index, n, true, w.s);
    }
    if (p.offset_bias != nullptr) {
      const T* bias = p.offset_bias + h * p.bias_stride;
      for (int64_t j = 0; j < n; ++j) w.s[j] += bias[p.offset_column(i, index[j])];
    }
    for (int64_t j = 0; p.distance != nullptr && j < n; ++j) w.s[j] += p.distance_bias(h, i, index[j]);
  }

  const AttentionProblem<T>& p;
  const SelectedKeys& selected;
  const SelectedScratch<T>& w;
};

/// Leading queries of sequence b that attend to nothing.
template <class T>
int64_t unseeing_queries(const AttentionProblem<T>& p, int64_t b) {
  const auto [begin, end] = p.keys_of(b);
  return begin == end ? p.queries : p.skipped_queries(b);
}

template <class T>
void forward_all(const AttentionProblem<T>& p, const SelectedKeys& selected, const SelectedScratch<T>& w) {
  Group<T>(p, selected, w).pack_relative();
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t unseeing = unseeing_queries(p, b);
    clear_rows(p.y, b, p.H, 0, unseeing, p.dv);
    for (int64_t h = 0; h < p.H; ++h) {
      std::fill_n(p.lse + (b * p.H + h) * p.lse_stride, unseeing, std::numeric_limits<T>::infinity());
    }
    if (unseeing == p.queries) continue;
    const AttentionProblem<T> one = p.sequence(b);
    const SelectedKeys keys = selected.sequence(b, unseeing);
    Group<T> group(one, keys, w);
    group.mark_selected();
    for (int64_t g = 0; g < p.G; ++g) {
      group.pack_keys(g);
      for (int64_t h = g * (p.H / p.G); h < (g + 1) * (p.H / p.G); ++h) group.forward(h);
    }
  }
}

template <class T>
void backward_all(const AttentionProblem<T>& p, const SelectedKeys& selected, const SelectedScratch<T>& w) {
  Group<T> whole(p, selected, w);
  whole.pack_relative();
  whole.clear_relative_gradients();
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t unseeing = unseeing_queries(p, b);
    const bool seeing = unseeing < p.queries;
    const KeyRange own = seeing ? p.keys_of(b) : KeyRange{p.keys, p.keys};
    if (!p.add_dq) clear_rows(p.dq, b, p.H, 0, unseeing, p.dk);
    if (!p.add_dk) {
      clear_rows(p.dk_out, b, p.G, 0, own.begin, p.dk);
      clear_rows(p.dk_out, b, p.G, own.end, p.keys, p.dk);
    }
    if (!p.add_dv) {
      clear_rows(p.dv_out, b, p.G, 0, own.begin, p.dv);
      clear_rows(p.dv_out, b, p.G, own.end, p.keys, p.dv);
    }
    if (!seeing) continue;
    const AttentionProblem<T> one = p.sequence(b);
    const SelectedKeys keys = selected.sequence(b, unseeing);
    Group<T> group(one, keys, w);
    group.mark_selected();
    for (int64_t g = 0; g < p.G; ++g) {
      group.pack_keys(g);
      group.clear_key_gradients();
      for (int64_t h = g * (p.H / p.G); h < (g + 1) * (p.H / p.G); ++h) group.backward(h);
      group.unpack_key_gradients(g);
    }
  }
  whole.unpack_relative_gradients();
}

constexpr auto& ForwardF32 = forward_all<float>;
constexpr auto& ForwardF64 = forward_all<double>;
constexpr auto& BackwardF32 = backward_all<float>;
constexpr auto& BackwardF64 = backward_all<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

constexpr const char* kOp = "selected_attention";

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);

template <class T>
void forward(AttentionProblem<T>& p, const SelectedKeys& selected, const AttentionOptions& options, Tape& tape) {
  p.lse = tape.arena().allocate<T>(static_cast<std::size_t>(p.B * p.H * p.queries));
  p.statistics = options.statistics;
  const Arena::Mark mark = tape.arena().mark();
  for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64))(
      p, selected, SelectedScratch<T>(tape.arena(), p, selected.width, false));
  tape.arena().rewind(mark);
  p.statistics = nullptr;
}

/// Runs the kernel; the gradients of q, k and v are already open in p.
template <class T>
void backward(AttentionProblem<T> p, const SelectedKeys& selected, const AttentionAdditions& additions, Tape& tape) {
  open_gradients(tape, additions, p);
  const Arena::Mark mark = tape.arena().mark();
  for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64))(
      p, selected, SelectedScratch<T>(tape.arena(), p, selected.width, true));
  tape.arena().rewind(mark);
}

}  // namespace

Var selected_attention(const Heads& q_heads, const Heads& k_heads, const Heads& v_heads, const SelectedKeys& selected,
                       const AttentionOptions& options) {
  const AttentionExtents e = attention_extents(kOp, q_heads, k_heads, &v_heads);
  check_same_dtype(kOp, q_heads.x, k_heads.x);
  check_same_dtype(kOp, q_heads.x, v_heads.x);
  check_attention_operands(kOp, e, q_heads.x, options);
  require(e.queries <= e.keys, "{}: {} queries for {} keys; queries stand at the end of the keys", kOp, e.queries,
          e.keys);
  check_selected_keys(kOp, selected, e, options);
  const AttentionOperand q = attention_operand(q_heads);
  const AttentionOperand k = attention_operand(k_heads);
  const AttentionOperand v = attention_operand(v_heads);
  const int64_t columns = e.H * e.dv;
  const AttentionOperand y_layout{{}, 0, e.queries * columns, e.dv, columns};
  Tape& tape = *q.var.tape;
  const Tensor y = tape.allocate({e.B, e.queries, columns}, q.var.dtype());
  return dispatch(q.var.dtype(), [&]<class T>() {
    AttentionProblem<T> p = attention_problem<T>(e, options);
    p.q = q.value<T>();
    p.k = k.value<T>();
    p.v = v.value<T>();
    p.y = y_layout.view<T>(y.data<T>());
    forward(p, selected, options, tape);
    const AttentionAdditions additions(e, options);
    return tape.record(kOp, y, additions.with(q.var, k.var, v.var), [=](Tape& t, Var result) {
      AttentionProblem<T> back = p;
      back.dy = y_layout.view<const T>(t.gradient<T>(result));
      open_gradients(t, q, k, v, back);
      backward(back, selected, additions, t);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
