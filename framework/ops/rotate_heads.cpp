#include "framework/ops/rotate_heads.h"

#include <algorithm>

#include "framework/ops/checks.h"
#include "framework/ops/rotate_rows.h"

namespace ropewalk {
namespace {

struct Extents {
  int64_t B, rows, count, width;
  int64_t first, columns, batch_stride;  ///< of the operand
};

/// f(element in the operand, element in the result, position) for every head of every token; position < 0: padding.
template <class F>
void for_each_head(const Extents& e, int64_t start, const int64_t* first_token, F&& f) {
  for (int64_t b = 0; b < e.B; ++b) {
    const int64_t shift = start - (first_token != nullptr ? first_token[b] : 0);
    for (int64_t t = 0; t < e.rows; ++t) {
      for (int64_t h = 0; h < e.count; ++h) {
        f(b * e.batch_stride + t * e.columns + e.first + h * e.width, ((b * e.rows + t) * e.count + h) * e.width,
          shift + t);
      }
    }
  }
}

}  // namespace

Var rotate_heads(const Heads& heads, const RotaryTable& table, RotarySide side, const TokenPlaces& places) {
  constexpr const char* kOp = "rotate_heads";
  check_heads(kOp, heads);
  const Var x = heads.x;
  const Shape& shape = x.shape();
  const Extents e{.B = shape[0],
                  .rows = heads.rows < 0 ? shape[1] : heads.rows,
                  .count = heads.count,
                  .width = heads.width,
                  .first = heads.first,
                  .columns = shape[2],
                  .batch_stride = shape[1] * shape[2]};
  require(places.first_token.empty() || static_cast<int64_t>(places.first_token.size()) == e.B,
          "{}: the first tokens of {} sequences for {}", kOp, places.first_token.size(), e.B);
  require(table.dims <= e.width && table.cos.shape[0] >= places.start + e.rows,
          "{}: a rotary table of {} columns and {} positions for heads of {} columns at {} positions", kOp, table.dims,
          table.cos.shape[0], e.width, places.start + e.rows);
  require(table.cos.dtype == x.dtype(), "{}: a rotary table in {} for heads in {}", kOp, name_of(table.cos.dtype),
          name_of(x.dtype()));
  Tape& tape = *x.tape;
  const Tensor y = tape.allocate({e.B, e.rows, e.count * e.width}, x.dtype());
  const int64_t start = places.start;
  const RotaryTable* rotary = &table;
  const int64_t* first_token = places.first_token.empty() ? nullptr : places.first_token.data();
  return dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.value().data<T>();
    for_each_head(e, start, first_token, [&](int64_t i, int64_t o, int64_t position) {
      T* to = y.data<T>() + o;
      if (position < 0) {
        std::fill_n(to, e.width, T(0));
        return;
      }
      std::copy_n(from + i, e.width, to);
      rotate_rows(rotary, side, position, 1, e.width, false, to);
    });
    return tape.record(kOp, y, {x}, [=](Tape& t, Var result) {
      T* dx = t.gradient_accumulator<T>(x);
      if (dx == nullptr) return;
      const Arena::Mark mark = t.arena().mark();
      T* row = t.arena().allocate<T>(static_cast<std::size_t>(e.width));
      const T* dy = t.gradient<T>(result);
      for_each_head(e, start, first_token, [&](int64_t i, int64_t o, int64_t position) {
        if (position < 0) return;
        std::copy_n(dy + o, e.width, row);
        rotate_rows(rotary, side, position, 1, e.width, true, row);
        for (int64_t c = 0; c < e.width; ++c) dx[i + c] += row[c];
      });
      t.arena().rewind(mark);
    });
  });
}

}  // namespace ropewalk
