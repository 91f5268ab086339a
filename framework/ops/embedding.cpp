#include "framework/ops/embedding.h"

#include <algorithm>

#include "framework/ops/checks.h"
#include "framework/ops/vector_kernels.h"

namespace ropewalk {
namespace {

template <class T>
void forward(const int32_t* ids, int64_t count, const T* weight, int64_t width, T scale, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    scale_into(width, scale, weight + ids[i] * width, GradientSink<T>{y + i * width, false});
  }
}

template <class T>
void backward(const T* dy, const int32_t* ids, int64_t count, int64_t width, T scale, T* dweight) {
  for (int64_t i = 0; i < count; ++i) {
    scale_into(width, scale, dy + i * width, GradientSink<T>{dweight + ids[i] * width, true});
  }
}

}  // namespace

Var embedding(const int32_t* ids, const Shape& ids_shape, Var weight, double scale) {
  check_shape("embedding: weight", weight.shape(), {-1, -1});
  const int64_t vocabulary = weight.shape()[0];
  const int64_t width = weight.shape()[1];
  const int64_t count = ids_shape.elements();
  for (int64_t i = 0; i < count; ++i) {
    require(ids[i] >= 0 && ids[i] < vocabulary, "embedding: the id at position {} is {}; it must lie in [0, {})", i,
            ids[i], vocabulary);
  }
  Tape& tape = *weight.tape;
  auto* kept = tape.arena().allocate<int32_t>(static_cast<std::size_t>(count));
  std::copy(ids, ids + count, kept);
  Shape shape = ids_shape;
  shape.append(width);
  const Tensor y = tape.allocate(shape, weight.dtype());
  return dispatch(weight.dtype(), [&]<class T>() {
    forward(kept, count, weight.value().data<T>(), width, static_cast<T>(scale), y.data<T>());
    return tape.record("embedding", y, {weight}, [=](Tape& t, Var result) {
      T* dweight = t.gradient_accumulator<T>(weight);
      if (dweight != nullptr) backward(t.gradient<T>(result), kept, count, width, static_cast<T>(scale), dweight);
    });
  });
}

Var add_positions(Var x, Var table, int64_t start) {
  check_shape("add_positions: x", x.shape(), {-1, -1, -1});
  const int64_t sequences = x.shape()[0];
  const int64_t length = x.shape()[1];
  const int64_t width = x.shape()[2];
  check_shape("add_positions: table", table.shape(), {-1, width});
  check_same_dtype("add_positions", x, table);
  require(start >= 0 && start <= table.shape()[0] - length,
          "add_positions: positions {} to {} are wanted of a table of {}; a longer table or shorter sequences would do",
          start, start + length - 1, table.shape()[0]);
  Tape& tape = *x.tape;
  const int64_t n = length * width;
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    const T* rows = table.value().data<T>() + start * width;
    for (int64_t b = 0; b < sequences; ++b) {
      add_scaled(n, T(1), x.value().data<T>() + b * n, rows, y.data<T>() + b * n);
    }
    return tape.record("add_positions", y, {x, table}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      if (const GradientSink<T> dx = t.gradient_sink<T>(x)) scale_into(sequences * n, T(1), dy, dx);
      if (T* dtable = t.gradient_accumulator<T>(table)) {
        for (int64_t b = 0; b < sequences; ++b) {
          scale_into(n, T(1), dy + b * n, GradientSink<T>{dtable + start * width, true});
        }
      }
    });
  });
}

}  // namespace ropewalk
