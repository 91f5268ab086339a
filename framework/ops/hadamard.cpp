#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/hadamard.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/hadamard.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// One row in place, not yet scaled.
template <class T>
void butterflies(T* x, int64_t n) {
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * half) {
      T* low = x + begin;
      T* high = low + half;
      vectorise<T>(half, [&](auto d, int64_t i) HWY_ATTR {
        const auto a = hn::LoadU(d, low + i);
        const auto b = hn::LoadU(d, high + i);
        hn::StoreU(hn::Add(a, b), d, low + i);
        hn::StoreU(hn::Sub(a, b), d, high + i);
      });
    }
  }
}

// `row` is room for one row.
template <class T>
void transform(const T* x, int64_t rows, int64_t n, T* row, GradientSink<T> y) {
  const T factor = T(1) / std::sqrt(static_cast<T>(n));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy(x + r * n, x + (r + 1) * n, row);
    butterflies(row, n);
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      store_or_add(d, y.accumulate, hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), y.data + r * n + i);
    });
  }
}

constexpr auto& TransformF32 = transform<float>;
constexpr auto& TransformF64 = transform<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(TransformF32);
HWY_EXPORT(TransformF64);

template <class T>
void transform(const T* x, int64_t rows, int64_t n, Arena& arena, GradientSink<T> y) {
  const Arena::Mark mark = arena.mark();
  for_type<T>(HWY_DYNAMIC_DISPATCH(TransformF32), HWY_DYNAMIC_DISPATCH(TransformF64))(
      x, rows, n, arena.allocate<T>(static_cast<std::size_t>(n)), y);
  arena.rewind(mark);
}

}  // namespace

Var hadamard(Var x, int64_t width) {
  check_has_last_axis("hadamard", x);
  const int64_t n = width > 0 ? width : x.shape()[-1];
  require(std::has_single_bit(static_cast<uint64_t>(n)),
          "hadamard: rows of {} elements; the transform is defined for powers of two", n);
  require(x.shape()[-1] % n == 0, "hadamard: rows of {} elements are no whole number of {}", x.shape()[-1], n);
  const int64_t rows = x.shape().elements() / n;
  Tape& tape = *x.tape;
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    transform(x.value().data<T>(), rows, n, tape.arena(), GradientSink<T>{y.data<T>(), false});
    return tape.record("hadamard", y, {x}, [=](Tape& t, Var result) {
      const GradientSink<T> dx = t.gradient_sink<T>(x);
      if (dx) transform(t.gradient<T>(result), rows, n, t.arena(), dx);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
