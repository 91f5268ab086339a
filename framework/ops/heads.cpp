#include "framework/ops/heads.h"

#include <algorithm>

#include "framework/gemm.h"
#include "framework/ops/checks.h"
#include "framework/ops/vector_kernels.h"

namespace ropewalk {
namespace {

/// One of the two operands of join_heads(), and the columns of a joined head that it fills.
struct Part {
  int64_t first, width;  ///< in the operand's row; 0 width: none
  int64_t step;          ///< from one head to the next; 0: all share one
  int64_t columns;       ///< of the operand's row
  int64_t at, joined;    ///< where its columns begin in a joined head, and how wide that is
};

template <class T>
void copy_part(const Part& p, int64_t rows, int64_t n_heads, const T* from, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < n_heads; ++h) {
      const T* x = from + r * p.columns + p.first + h * p.step;
      std::copy_n(x, p.width, y + (r * n_heads + h) * p.joined + p.at);
    }
  }
}

template <class T>
void add_part(const Part& p, int64_t rows, int64_t n_heads, const T* dy, T* dx) {
  if (dx == nullptr) return;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < n_heads; ++h) {
      const T* from = dy + (r * n_heads + h) * p.joined + p.at;
      T* to = dx + r * p.columns + p.first + h * p.step;
      for (int64_t c = 0; c < p.width; ++c) to[c] += from[c];
    }
  }
}

}  // namespace

void check_heads(const char* op, const Heads& heads) {
  const Shape& shape = heads.x.shape();
  require(shape.rank() == 3, "{}: heads lie in [batch, rows, columns], not in a shape {}", op, shape.to_string());
  require(
      heads.count >= 1 && heads.width >= 1 && heads.first >= 0 && heads.first + heads.count * heads.width <= shape[2],
      "{}: {} heads of {} columns from column {} on in {} columns", op, heads.count, heads.width, heads.first,
      shape[2]);
  require(heads.rows <= shape[1], "{}: {} rows are wanted of {}", op, heads.rows, shape[1]);
}

Var join_heads(const Heads& a, const Heads& b, int64_t n_heads) {
  check_heads("join_heads", a);
  check_heads("join_heads", b);
  check_same_dtype("join_heads", a.x, b.x);
  const Shape& shape = a.x.shape();
  for (const Heads* part : {&a, &b}) {
    require(part->count == n_heads || part->count == 1, "join_heads: {} heads for {}", part->count, n_heads);
    require(part->rows < 0 && part->x.shape()[0] == shape[0] && part->x.shape()[1] == shape[1],
            "join_heads: heads of shapes {} and {}; their rows must be the same", shape.to_string(),
            part->x.shape().to_string());
  }
  const int64_t joined = a.width + b.width;
  const auto part_of = [=](const Heads& heads, int64_t at) {
    return Part{heads.first, heads.width, heads.count == 1 ? 0 : heads.width, heads.x.shape()[2], at, joined};
  };
  const Part first = part_of(a, 0);
  const Part second = part_of(b, a.width);
  const int64_t rows = shape.rows();
  const Var xa = a.x;
  const Var xb = b.x;
  Tape& tape = *xa.tape;
  const Tensor y = tape.allocate(shape.with_last(n_heads * joined), xa.dtype());
  return dispatch(xa.dtype(), [&]<class T>() {
    copy_part(first, rows, n_heads, xa.value().data<T>(), y.data<T>());
    copy_part(second, rows, n_heads, xb.value().data<T>(), y.data<T>());
    return tape.record("join_heads", y, {xa, xb}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      add_part(first, rows, n_heads, dy, t.gradient_accumulator<T>(xa));
      add_part(second, rows, n_heads, dy, t.gradient_accumulator<T>(xb));
    });
  });
}

Var head_linear(const Heads& x, Var weight, bool transposed) {
  check_heads("head_linear", x);
  check_same_dtype("head_linear", x.x, weight);
  check_shape("head_linear: weight", weight.shape(), {-1, -1});
  const int64_t m = weight.shape()[0] / x.count;
  const int64_t n = weight.shape()[1];
  const int64_t in = transposed ? n : m;
  const int64_t out = transposed ? m : n;
  require(m * x.count == weight.shape()[0] && in == x.width,
          "head_linear: a weight of shape {} for {} heads of {} columns", weight.shape().to_string(), x.count, x.width);
  const Var from = x.x;
  const int64_t first = x.first;
  const int64_t heads = x.count;
  const int64_t columns = from.shape()[2];
  const int64_t rows = from.shape().rows();
  Tape& tape = *from.tape;
  const Tensor y = tape.allocate(from.shape().with_last(heads * out), from.dtype());
  return dispatch(from.dtype(), [&]<class T>() {
    for (int64_t h = 0; h < heads; ++h) {
      gemm(Transpose::no, transposed ? Transpose::yes : Transpose::no, rows, out, in,
           from.value().data<T>() + first + h * in, columns, weight.value().data<T>() + h * m * n, n, false,
           y.data<T>() + h * out, heads * out);
    }
    return tape.record("head_linear", y, {from, weight}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      T* dx = t.gradient_accumulator<T>(from);
      T* dweight = t.gradient_accumulator<T>(weight);
      for (int64_t h = 0; h < heads; ++h) {
        const T* x_h = from.value().data<T>() + first + h * in;
        const T* dy_h = dy + h * out;
        if (dx != nullptr) {
          gemm(Transpose::no, transposed ? Transpose::no : Transpose::yes, rows, in, out, dy_h, heads * out,
               weight.value().data<T>() + h * m * n, n, true, dx + first + h * in, columns);
        }
        if (dweight == nullptr) continue;
        if (transposed) {
          gemm(Transpose::yes, Transpose::no, m, n, rows, dy_h, heads * out, x_h, columns, true, dweight + h * m * n,
               n);
        } else {
          gemm(Transpose::yes, Transpose::no, m, n, rows, x_h, columns, dy_h, heads * out, true, dweight + h * m * n,
               n);
        }
      }
    });
  });
}

}  // namespace ropewalk
