#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/index_scores.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/index_rows-inl.h"

#include <algorithm>

#include "framework/for_type.h"
#include "framework/ops/index_scores.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void forward(const IndexProblem<T>& p, const IndexScratch<T>& s, T* y) {
  for (int64_t b = 0; b < p.B; ++b) {
    const IndexProblem<T> one = p.sequence(b);
    pack_index_keys(one, s, false);
    for (int64_t t0 = 0; t0 < p.queries; t0 += p.block()) {
      const int64_t rows = std::min(p.block(), p.queries - t0);
      for (int64_t j0 = 0; j0 < p.keys; j0 += kTileColumns) index_tile(one, s, t0, rows, j0);
      for (int64_t r = 0; r < rows; ++r) {
        const T* scores = s.scores + r * s.keys_pad;
        std::copy(scores, scores + p.keys, y + (b * p.queries + t0 + r) * p.keys);
      }
    }
  }
}

template <class T>
void backward(const IndexProblem<T>& p, const IndexScratch<T>& s, const T* dy, const IndexGradients<T>& g) {
  for (int64_t b = 0; b < p.B; ++b) {
    const IndexProblem<T> one = p.sequence(b);
    const IndexGradients<T> one_g = g.sequence(p, b);
    pack_index_keys(one, s, true);
    for (int64_t t0 = 0; t0 < p.queries; t0 += p.block()) {
      const int64_t rows = std::min(p.block(), p.queries - t0);
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = dy + (b * p.queries + t0 + r) * p.keys;
        T* to = s.scores + r * s.keys_pad;
        std::copy(row, row + p.keys, to);
        std::fill(to + p.keys, to + s.keys_pad, T(0));
      }
      index_block_backward(one, s, t0, rows, s.scores, s.keys_pad, one_g, [](int64_t) { return true; });
    }
    add_index_key_gradients(one, s, one_g);
  }
}

constexpr auto& ForwardF32 = forward<float>;
constexpr auto& ForwardF64 = forward<double>;
constexpr auto& BackwardF32 = backward<float>;
constexpr auto& BackwardF64 = backward<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);

}  // namespace

Var index_scores(Var q, Var k, Var w) {
  Tape& tape = *q.tape;
  return dispatch(q.dtype(), [&]<class T>() {
    const IndexProblem<T> p = index_problem<T>("index_scores", q, k, w);
    const Tensor y = tape.allocate({p.B, p.queries, p.keys}, q.dtype());
    const Arena::Mark mark = tape.arena().mark();
    for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64))(
        p, IndexScratch<T>(tape.arena(), p, false), y.data<T>());
    tape.arena().rewind(mark);
    return tape.record("index_scores", y, {q, k, w}, [=](Tape& t, Var result) {
      const IndexGradients<T> g{t.gradient_accumulator<T>(q), t.gradient_accumulator<T>(k),
                                t.gradient_accumulator<T>(w)};
      const Arena::Mark before = t.arena().mark();
      for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64))(
          p, IndexScratch<T>(t.arena(), p, true), t.gradient<T>(result), g);
      t.arena().rewind(before);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
