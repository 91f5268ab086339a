#include "framework/ops/elementwise.h"

#include "framework/ops/checks.h"
#include "framework/ops/vector_kernels.h"

namespace ropewalk {
namespace {

Var combine(const char* op, Var a, double s, Var b) {
  check_same_shape(op, a, b);
  Tape& tape = *a.tape;
  const int64_t n = a.value().elements();
  const Tensor y = tape.allocate(a.shape(), a.dtype());
  return dispatch(a.dtype(), [&]<class T>() {
    add_scaled(n, static_cast<T>(s), a.value().data<T>(), b.value().data<T>(), y.data<T>());
    return tape.record(op, y, {a, b}, [=](Tape& t, Var result) {
      const T* dy = t.gradient<T>(result);
      // One after the other: a and b may be the same Var.
      if (const GradientSink<T> da = t.gradient_sink<T>(a)) scale_into(n, static_cast<T>(s), dy, da);
      if (const GradientSink<T> db = t.gradient_sink<T>(b)) scale_into(n, T(1), dy, db);
    });
  });
}

}  // namespace

Var add(Var a, Var b) {
  return combine("add", a, 1.0, b);
}

Var scale_add(Var a, double s, Var b) {
  return combine("scale_add", a, s, b);
}

Var scale(Var x, double s) {
  Tape& tape = *x.tape;
  const int64_t n = x.value().elements();
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    scale_into(n, static_cast<T>(s), x.value().data<T>(), GradientSink<T>{y.data<T>(), false});
    return tape.record("scale", y, {x}, [=](Tape& t, Var result) {
      if (const GradientSink<T> dx = t.gradient_sink<T>(x)) scale_into(n, static_cast<T>(s), t.gradient<T>(result), dx);
    });
  });
}

}  // namespace ropewalk
