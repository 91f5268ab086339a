#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/linear.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include "framework/gemm.h"
#include "framework/ops/linear.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void broadcast_rows(const T* bias, int64_t rows, int64_t n, T* y) {
  for (int64_t r = 0; r < rows; ++r) {
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::LoadU(d, bias + i), d, y + r * n + i); });
  }
}

// Four rows at a time: the column sums stay in registers or L1 while dy streams past once.
template <class T>
void add_column_sums(const T* dy, int64_t rows, int64_t n, bool accumulate, T* sums) {
  if (!accumulate) vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Zero(d), d, sums + i); });
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* p = dy + r * n;
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      const auto s01 = hn::Add(hn::LoadU(d, p + i), hn::LoadU(d, p + n + i));
      const auto s23 = hn::Add(hn::LoadU(d, p + 2 * n + i), hn::LoadU(d, p + 3 * n + i));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(s01, s23)), d, sums + i);
    });
  }
  for (; r < rows; ++r) {
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, dy + r * n + i)), d, sums + i);
    });
  }
}

void BroadcastRowsF32(const float* bias, int64_t rows, int64_t n, float* y) {
  broadcast_rows(bias, rows, n, y);
}
void BroadcastRowsF64(const double* bias, int64_t rows, int64_t n, double* y) {
  broadcast_rows(bias, rows, n, y);
}
void AddColumnSumsF32(const float* dy, int64_t rows, int64_t n, bool accumulate, float* sums) {
  add_column_sums(dy, rows, n, accumulate, sums);
}
void AddColumnSumsF64(const double* dy, int64_t rows, int64_t n, bool accumulate, double* sums) {
  add_column_sums(dy, rows, n, accumulate, sums);
}

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(BroadcastRowsF32);
HWY_EXPORT(BroadcastRowsF64);
HWY_EXPORT(AddColumnSumsF32);
HWY_EXPORT(AddColumnSumsF64);

void broadcast_rows(const float* bias, int64_t rows, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(BroadcastRowsF32)(bias, rows, n, y);
}
void broadcast_rows(const double* bias, int64_t rows, int64_t n, double* y) {
  HWY_DYNAMIC_DISPATCH(BroadcastRowsF64)(bias, rows, n, y);
}
void add_column_sums(const float* dy, int64_t rows, int64_t n, bool accumulate, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddColumnSumsF32)(dy, rows, n, accumulate, sums);
}
void add_column_sums(const double* dy, int64_t rows, int64_t n, bool accumulate, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddColumnSumsF64)(dy, rows, n, accumulate, sums);
}

template <class T>
void forward(const T* x, const T* weight, const T* bias, int64_t rows, int64_t in, int64_t out, T* y) {
  if (bias != nullptr) broadcast_rows(bias, rows, out, y);
  gemm(Transpose::no, Transpose::yes, rows, out, in, T(1), x, in, weight, in, T(bias != nullptr ? 1 : 0), y, out);
}

template <class T>
void backward(const T* dy, const T* x, const T* weight, int64_t rows, int64_t in, int64_t out, GradientSink<T> dx,
              GradientSink<T> dweight, GradientSink<T> dbias) {
  if (dx) {
    gemm(Transpose::no, Transpose::no, rows, in, out, T(1), dy, out, weight, in, T(dx.accumulate ? 1 : 0), dx.data, in);
  }
  if (dweight) {
    gemm(Transpose::yes, Transpose::no, out, in, rows, T(1), dy, out, x, in, T(dweight.accumulate ? 1 : 0),
         dweight.data, in);
  }
  if (dbias) add_column_sums(dy, rows, out, dbias.accumulate, dbias.data);
}

}  // namespace

Var linear(Var x, Var weight, Var bias) {
  Tape& tape = *x.tape;
  const int64_t in = x.shape()[-1];
  check_shape("linear: weight", weight.shape(), {-1, in});
  const int64_t out = weight.shape()[0];
  if (bias) check_shape("linear: bias", bias.shape(), {out});
  const int64_t rows = x.shape().rows();
  Tensor y = tape.allocate(x.shape().with_last(out), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    forward(x.value().data<T>(), weight.value().data<T>(), bias ? bias.value().data<T>() : nullptr, rows, in, out,
            y.data<T>());
    return tape.record("linear", y, {x, weight, bias}, [=](Tape& t, Var result) {
      backward(t.gradient<T>(result), x.value().data<T>(), weight.value().data<T>(), rows, in, out,
               t.gradient_sink<T>(x), t.gradient_sink<T>(weight), t.gradient_sink<T>(bias));
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
