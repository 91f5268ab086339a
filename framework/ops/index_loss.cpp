#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/index_loss.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/index_rows-inl.h"
#include "framework/ops/selected_rows-inl.h"

#include <algorithm>
#include <cmath>

#include "framework/for_type.h"
#include "framework/ops/index_loss.h"
#include "framework/ops/index_loss_scratch.h"
#include "framework/ops/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// KL(p / sum of p || softmax(x)) over n elements; x becomes scale times its gradient by x.
template <class T>
double divergence(const T* p, int64_t n, T scale, T* x) {
  const T total = sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, p + i); });
  if (total == 0) {
    std::fill(x, x + n, T(0));
    return 0;
  }
  const T greatest = max_of(x, n);
  const T sum = static_cast<T>(sum_of_exp(x, n, greatest));
  const T log_sum = std::log(sum);
  const T inverse_total = T(1) / total;
  const T inverse_sum = T(1) / sum;
  const T loss = sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto target = hn::Mul(hn::LoadU(d, p + i), hn::Set(d, inverse_total));
    const auto log_guess = hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, greatest)), hn::Set(d, log_sum));
    // 0 ln 0 = 0.
    const auto term = hn::Mul(target, hn::Sub(hn::Log(d, target), log_guess));
    return hn::IfThenZeroElse(hn::Eq(target, hn::Zero(d)), term);
  });
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto e = exp_keeping_nan(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, greatest)));
    const auto target = hn::Mul(hn::LoadU(d, p + i), hn::Set(d, inverse_total));
    hn::StoreU(hn::Mul(hn::Sub(hn::Mul(e, hn::Set(d, inverse_sum)), target), hn::Set(d, scale)), d, x + i);
  });
  return static_cast<double>(loss);
}

/// The loss of one sequence.
template <class T>
class Loss {
 public:
  Loss(const IndexProblem<T>& problem, const AttentionProblem<T>& attention, const IndexLossScratch<T>& scratch,
       const IndexGradients<T>& gradients, T gradient_scale)
      : p(problem), teacher(attention), w(scratch), g(gradients), scale(gradient_scale) {}

  /// Sum over queries, the keys being the selected ones or, where that is null, the visible ones.
  double run(const SelectedKeys* selected) {
    pack_relative_keys(teacher, w.relative);
    pack_index_keys(p, w.index, true);
    pack_teacher_keys(selected == nullptr);
    // A hidden key that is NaN must not meet the zeros of a tile.
    const bool safe = selected == nullptr && products_are_finite(p.k, p.keys * p.d) &&
                      products_are_finite(p.q, p.queries * p.heads * p.d);
    double sum = 0;
    for (int64_t t0 = 0; t0 < p.queries; t0 += p.block()) {
      const int64_t rows = std::min(p.block(), p.queries - t0);
      sum += selected != nullptr ? selected_queries(*selected, t0, rows) : visible_queries(t0, rows, safe);
    }
    add_index_key_gradients(p, w.index, g);
    return sum;
  }

 private:
  bool wants_gradients() const { return g.dq != nullptr || g.dk != nullptr || g.dw != nullptr; }
  int64_t kv_head(int64_t h) const { return h / (teacher.H / teacher.G); }
  T* teacher_rows(int64_t kv) const { return w.teacher_k + kv * p.keys * w.dk_pad; }
  T* teacher_tiles(int64_t kv) const { return w.teacher_tiles + kv * w.index.keys_pad * teacher.dk; }

  void pack_teacher_keys(bool dense) {
    for (int64_t kv = 0; kv < teacher.G; ++kv) {
      T* rows = teacher_rows(kv);
      for (int64_t j = 0; j < p.keys; ++j) {
        pack_row<T>(teacher.k.head(0, kv) + j * teacher.k.row_stride, teacher.dk, T(1),
                    Turn{teacher.rotary, RotarySide::keys, j}, rows + j * w.dk_pad);
      }
      if (dense) pack_tiles(rows, p.keys, teacher.dk, w.dk_pad, teacher_tiles(kv));
    }
  }

  /// The relative keys of a head.
  T* relative_of(int64_t h) const { return w.relative + teacher.relative_head(h) * teacher.relative_rows() * w.dk_pad; }

  /// p_row += the softmax of w.row [n].
  void add_probabilities(int64_t n, T* p_row) {
    T greatest = 0;
    const T sum = exponentiate(w.row, n, greatest);
    if (sum == 0) return;
    const T inverse = T(1) / sum;
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      const auto probability = hn::Mul(hn::LoadU(d, w.row + i), hn::Set(d, inverse));
      hn::StoreU(hn::Add(hn::LoadU(d, p_row + i), probability), d, p_row + i);
    });
  }

  // ---- selected keys: row by row

  /// What is added to a score, but for the relative keys.
  T bias_of(int64_t h, int64_t i, int64_t j) const {
    T sum = 0;
    if (teacher.offset_bias != nullptr) {
      sum += teacher.offset_bias[h * teacher.bias_stride + teacher.offset_column(i, j)];
    }
    return teacher.distance != nullptr ? sum + teacher.distance_bias(h, i, j) : sum;
  }

  /// Adds a head's probabilities over the keys index [n] to p_row.
  void teach(int64_t h, int64_t t, const int32_t* index, int64_t n, T* p_row) {
    const int64_t i = p.position(t);
    pack_query(teacher, h, t, w.teacher_q);
    dot_rows<T>(w.teacher_q, {teacher_rows(kv_head(h)), w.dk_pad}, index, n, false, w.row);
    if (teacher.relative_keys != nullptr) {
      for (int64_t j = 0; j < n; ++j) w.relative_index[j] = static_cast<int32_t>(teacher.relative_row(i, index[j]));
      dot_rows<T>(w.teacher_q, {relative_of(h), w.dk_pad}, w.relative_index, n, true, w.row);
    }
    for (int64_t j = 0; j < n; ++j) w.row[j] += bias_of(h, i, index[j]);
    add_probabilities(n, p_row);
  }

  /// The divergence of one query over the keys index [n], and its gradients.
  double learn(int64_t t, const int32_t* index, int64_t n, const T* p_row) {
    const T* q = p.q_row(t);
    const T* weights = p.w_row(t);
    std::fill(w.index_row, w.index_row + n, T(0));
    for (int64_t h = 0; h < p.heads; ++h) {
      T* query = w.index.q + h * w.index.d_pad;
      T* products = w.products + h * p.keys;
      pack_row<T>(q + h * p.d, p.d, T(1), {}, query);
      dot_rows<T>(query, {w.index.k, w.index.d_pad}, index, n, false, products);
      vectorise<T>(n, [&](auto d, int64_t j) HWY_ATTR {
        const auto sum = hn::LoadU(d, w.index_row + j);
        hn::StoreU(hn::MulAdd(hn::Set(d, weights[h]), relu_of(d, hn::LoadU(d, products + j)), sum), d, w.index_row + j);
      });
    }
    const double loss = n > 0 ? divergence(p_row, n, scale, w.index_row) : 0.0;
    if (!wants_gradients()) return loss;
    T* dw = g.dw != nullptr ? g.dw + t * p.heads : nullptr;
    index_product_gradients(w.index_row, weights, p.heads, n, w.products, p.keys, dw);
    for (int64_t h = 0; h < p.heads; ++h) {
      const T* products = w.products + h * p.keys;
      if (g.dk != nullptr) {
        add_to_rows<T>(products, w.index.q + h * w.index.d_pad, index, n, {w.index.dk, w.index.d_pad});
      }
      if (g.dq == nullptr) continue;
      sum_rows<T>(products, {w.index.k, w.index.d_pad}, index, n, false, w.index.dq);
      unpack_row<T>(w.index.dq, p.d, T(1), {}, true, g.dq + (t * p.heads + h) * p.d);
    }
    return loss;
  }

  double selected_queries(const SelectedKeys& selected, int64_t t0, int64_t rows) {
    double sum = 0;
    for (int64_t t = t0; t < t0 + rows; ++t) {
      const int32_t* index = selected.row(0, t);
      const int64_t n = selected.count(0, t);
      std::fill(w.p, w.p + n, T(0));
      for (int64_t h = 0; h < teacher.H; ++h) teach(h, t, index, n, w.p);
      sum += learn(t, index, n, w.p);
    }
    return sum;
  }

  // ---- all visible keys: by tiles

  /// w.row = the scores of a row of a block without the gaps between what is seen; returns how many.
  int64_t gather(const VisibleKeys& visible, const T* scores, T* to) {
    int64_t n = 0;
    visible.for_each_range([&](KeyRange keys) {
      std::copy(scores + keys.begin, scores + keys.end, to + n);
      n += keys.end - keys.begin;
    });
    return n;
  }

  void add_biases(const VisibleKeys& visible, int64_t h, int64_t i, const T* q) {
    if (teacher.relative_keys != nullptr) {
      for (int64_t r = 0; r < teacher.relative_rows(); ++r) {
        const T* relative = relative_of(h) + r * w.dk_pad;
        w.query_relative[r] = sum_of<T>(w.dk_pad, [&](auto d, int64_t c) HWY_ATTR {
          return hn::Mul(hn::LoadU(d, q + c), hn::LoadU(d, relative + c));
        });
      }
    }
    int64_t n = 0;
    visible.for_each_range([&](KeyRange keys) {
      for (int64_t j = keys.begin; j < keys.end; ++j, ++n) {
        if (teacher.relative_keys != nullptr) w.row[n] += w.query_relative[teacher.relative_row(i, j)];
        w.row[n] += bias_of(h, i, j);
      }
    });
  }

  double visible_queries(int64_t t0, int64_t rows, bool safe) {
    const int64_t ld = w.index.keys_pad;
    const VisibleSpan span(teacher.mask, p.position(t0), rows, p.keys);
    std::fill(w.p, w.p + rows * ld, T(0));
    for (int64_t h = 0; h < teacher.H; ++h) {
      for (int64_t r = 0; r < rows; ++r) pack_query(teacher, h, t0 + r, w.teacher_q + r * w.dk_pad);
      for (int64_t j0 = 0; j0 < p.keys; j0 += kTileColumns) {
        if (!span.meets(j0, kTileColumns)) continue;
        small_gemm<T>(rows, padded_width<T>(std::min(kTileColumns, p.keys - j0)), teacher.dk,
                      {w.teacher_q, w.dk_pad, 1}, teacher_tiles(kv_head(h)) + j0 * teacher.dk, kTileColumns, false,
                      w.scores + j0, ld);
      }
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t i = p.position(t0 + r);
        const VisibleKeys visible(teacher.mask, i, p.keys);
        const int64_t n = gather(visible, w.scores + r * ld, w.row);
        add_biases(visible, h, i, w.teacher_q + r * w.dk_pad);
        add_probabilities(n, w.p + r * ld);
      }
    }
    return safe ? learn_block(span, t0, rows) : learn_rows(t0, rows);
  }

  double learn_rows(int64_t t0, int64_t rows) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t n = 0;
      VisibleKeys(teacher.mask, p.position(t0 + r), p.keys).for_each_range([&](KeyRange keys) {
        for (int64_t j = keys.begin; j < keys.end; ++j) w.positions[n++] = static_cast<int32_t>(j);
      });
      sum += learn(t0 + r, w.positions, n, w.p + r * w.index.keys_pad);
    }
    return sum;
  }

  double learn_block(const VisibleSpan& span, int64_t t0, int64_t rows) {
    const int64_t ld = w.index.keys_pad;
    const auto seen = [&](int64_t j0) { return span.meets(j0, kTileColumns); };
    for (int64_t j0 = 0; j0 < p.keys; j0 += kTileColumns) {
      if (seen(j0)) index_tile(p, w.index, t0, rows, j0);
    }
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const VisibleKeys visible(teacher.mask, p.position(t0 + r), p.keys);
      T* scores = w.index.scores + r * ld;
      const int64_t n = gather(visible, scores, w.index_row);
      if (n > 0) sum += divergence(w.p + r * ld, n, scale, w.index_row);
      std::fill(scores, scores + ld, T(0));
      const T* from = w.index_row;
      visible.for_each_range([&](KeyRange keys) {
        std::copy(from, from + (keys.end - keys.begin), scores + keys.begin);
        from += keys.end - keys.begin;
      });
    }
    if (wants_gradients()) index_block_backward(p, w.index, t0, rows, w.index.scores, ld, g, seen);
    return sum;
  }

  const IndexProblem<T>& p;
  const AttentionProblem<T>& teacher;
  const IndexLossScratch<T>& w;
  const IndexGradients<T>& g;
  T scale;
};

template <class T>
double loss_all(const IndexProblem<T>& p, const AttentionProblem<T>& teacher, const IndexLossScratch<T>& w,
                const SelectedKeys* selected, const IndexGradients<T>& g, double scale) {
  double sum = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t skipped = p.skipped_queries(b);
    if (skipped == p.queries) continue;
    const IndexProblem<T> one = p.sequence(b);
    const AttentionProblem<T> attention = teacher.sequence(b);
    const IndexGradients<T> gradients = g.sequence(p, b);
    SelectedKeys keys;
    if (selected != nullptr) keys = selected->sequence(b, skipped);
    sum += Loss<T>(one, attention, w, gradients, static_cast<T>(scale)).run(selected != nullptr ? &keys : nullptr);
  }
  return sum;
}

constexpr auto& LossF32 = loss_all<float>;
constexpr auto& LossF64 = loss_all<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(LossF32);
HWY_EXPORT(LossF64);

constexpr const char* kOp = "index_loss";

Var make_loss(Var q, Var k, Var w, const IndexTeacher& teacher, const SelectedKeys* selected, double normalizer) {
  require(normalizer > 0, "index_loss: the normalizer is {}; it counts the queries of a step and must be positive",
          normalizer);
  AttentionOptions options = teacher.options;
  options.relative_values = {};  // they change no probability
  const AttentionExtents e = attention_extents(kOp, teacher.q, teacher.k, nullptr);
  check_attention_operands(kOp, e, teacher.q.x, options);
  check_same_dtype(kOp, teacher.q.x, teacher.k.x);
  check_same_dtype(kOp, q, teacher.q.x);
  Tape& tape = *q.tape;
  return dispatch(q.dtype(), [&]<class T>() {
    const IndexProblem<T> p = index_problem<T>(kOp, q, k, w, {options.first_key, options.key_end});
    require(p.B == e.B && p.queries == e.queries && p.keys == e.keys,
            "index_loss: an indexer of {} sequences of {} queries and {} keys for an attention of {} of {} and {}", p.B,
            p.queries, p.keys, e.B, e.queries, e.keys);
    if (selected != nullptr) check_selected_keys(kOp, *selected, e, options);
    AttentionProblem<T> attention = attention_problem<T>(e, options);
    attention.q = attention_operand(teacher.q).template value<T>();
    attention.k = attention_operand(teacher.k).template value<T>();
    const Tensor loss = tape.allocate({}, q.dtype());
    const auto zeros = [&](Var x) -> T* {
      if (tape.mode() != Mode::train || !tape.needs_gradient(x)) return nullptr;
      T* gradient = tape.allocate(x.shape(), x.dtype()).data<T>();
      std::fill(gradient, gradient + x.shape().elements(), T(0));
      return gradient;
    };
    const IndexGradients<T> gradients{zeros(q), zeros(k), zeros(w)};
    const Arena::Mark mark = tape.arena().mark();
    const IndexLossScratch<T> scratch(tape.arena(), p, attention, selected == nullptr);
    const double sum = for_type<T>(HWY_DYNAMIC_DISPATCH(LossF32), HWY_DYNAMIC_DISPATCH(LossF64))(
        p, attention, scratch, selected, gradients, 1.0 / normalizer);
    tape.arena().rewind(mark);
    loss.set(0, sum / normalizer);
    return tape.record(kOp, loss, {q, k, w}, [=](Tape& t, Var result) {
      const T dloss = *t.gradient<T>(result);
      const auto pass = [&](const T* gradient, Var x) {
        if (const GradientSink<T> sink = t.gradient_sink<T>(x)) {
          scale_into(x.shape().elements(), dloss, gradient, sink);
        }
      };
      pass(gradients.dq, q);
      pass(gradients.dk, k);
      pass(gradients.dw, w);
    });
  });
}

}  // namespace

Var index_loss(Var q, Var k, Var w, const IndexTeacher& teacher, double normalizer) {
  return make_loss(q, k, w, teacher, nullptr, normalizer);
}

Var index_loss(Var q, Var k, Var w, const IndexTeacher& teacher, const SelectedKeys& selected, double normalizer) {
  return make_loss(q, k, w, teacher, &selected, normalizer);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
