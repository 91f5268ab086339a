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

Var add_positions(Var x, Var table, const TokenPlaces& places) {
  check_shape("add_positions: x", x.shape(), {-1, -1, -1});
  const int64_t sequences = x.shape()[0];
  const int64_t length = x.shape()[1];
  const int64_t width = x.shape()[2];
  check_shape("add_positions: table", table.shape(), {-1, width});
  check_same_dtype("add_positions", x, table);
  require(places.first_token.empty() || static_cast<int64_t>(places.first_token.size()) == sequences,
          "add_positions: first_token has {} entries for {} sequences", places.first_token.size(), sequences);
  const auto first_of = [=](int64_t b) {
    return places.first_token.empty() ? int64_t{0} : places.first_token[static_cast<std::size_t>(b)];
  };
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t last = places.start + length - 1 - first_of(b);
    require(places.positions.empty() || last < static_cast<int64_t>(places.positions.size()),
            "add_positions: token {} of {} positions", last, places.positions.size());
    const int64_t row =
        last >= 0 && !places.positions.empty() ? places.positions[static_cast<std::size_t>(last)] : last;
    require(
        places.start >= 0 && first_of(b) >= 0 && row < table.shape()[0],
        "add_positions: positions {} to {} are wanted of a table of {}; a longer table or shorter sequences would do",
        places.start - first_of(b), row, table.shape()[0]);
  }
  Tape& tape = *x.tape;
  const int64_t n = length * width;
  const auto padding_of = [=](int64_t b) { return std::clamp<int64_t>(first_of(b) - places.start, 0, length); };
  // For tokens that take adjacent rows of the table: where they begin in x, the first of the rows, how many elements.
  const auto for_runs = [=](auto&& f) {
    for (int64_t b = 0; b < sequences; ++b) {
      const int64_t padding = padding_of(b);
      const int64_t first = places.start + padding - first_of(b);
      if (places.positions.empty()) {
        f(b * n + padding * width, first * width, n - padding * width);
        continue;
      }
      for (int64_t t = padding; t < length; ++t) {
        const int64_t row = places.positions[static_cast<std::size_t>(first + t - padding)];
        f(b * n + t * width, row * width, width);
      }
    }
  };
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.value().data<T>();
    const T* rows = table.value().data<T>();
    for (int64_t b = 0; b < sequences; ++b) std::copy_n(from + b * n, padding_of(b) * width, y.data<T>() + b * n);
    for_runs([&](int64_t at, int64_t row, int64_t count) {
      add_scaled(count, T(1), from + at, rows + row, y.data<T>() + at);
    });
    return tape.record("add_positions", y, {x, table}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      if (const GradientSink<T> dx = t.gradient_sink<T>(x)) scale_into(sequences * n, T(1), dy, dx);
      if (T* dtable = t.gradient_accumulator<T>(table)) {
        for_runs([&](int64_t at, int64_t row, int64_t count) {
          scale_into(count, T(1), dy + at, GradientSink<T>{dtable + row, true});
        });
      }
    });
  });
}

}  // namespace ropewalk
