#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/softmax.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/row_reductions-inl.h"
#include "framework/simd-inl.h"

#include <algorithm>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void forward(const T* x, int64_t rows, int64_t n, T* y) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T greatest = max_of(x, n);
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(exp_keeping_nan(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, greatest))), d, y + i);
    });
    const T factor = T(1) / sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, y + i); });
    vectorise<T>(
        n, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, factor)), d, y + i); });
  }
}

template <class T>
void backward(const T* dy, const T* y, int64_t rows, int64_t n, GradientSink<T> dx) {
  for (int64_t r = 0; r < rows; ++r, dy += n, y += n, dx.data += n) {
    // As y sums to 1, dy may be measured from any value. From that of the greatest y a row that is nearly one-hot keeps
    // its digits: there dy and the sum are all but equal.
    const T from = dy[std::max_element(y, y + n) - y];
    const T dot = sum_of<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      return hn::Mul(hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, from)), hn::LoadU(d, y + i));
    });
    vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
      const auto relative = hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, from));
      const auto v = hn::Mul(hn::LoadU(d, y + i), hn::Sub(relative, hn::Set(d, dot)));
      store_or_add(d, dx.accumulate, v, dx.data + i);
    });
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

Var softmax(Var x) {
  check_has_last_axis("softmax", x);
  Tape& tape = *x.tape;
  const int64_t n = x.shape()[-1];
  const int64_t rows = x.shape().rows();
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
    auto& backward = for_type<T>(HWY_DYNAMIC_DISPATCH(BackwardF32), HWY_DYNAMIC_DISPATCH(BackwardF64));
    forward(x.value().data<T>(), rows, n, y.data<T>());
    return tape.record("softmax", y, {x}, [=](Tape& t, Var result) {
      const GradientSink<T> dx = t.gradient_sink<T>(x);
      if (dx) backward(t.gradient<T>(result), result.value().data<T>(), rows, n, dx);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
