#include "framework/ops/slice.h"

#include <algorithm>

#include "framework/ops/checks.h"
#include "framework/ops/vector_kernels.h"

namespace ropewalk {

Var last_rows(Var x, int64_t count) {
  check_shape("last_rows: x", x.shape(), {-1, -1, -1});
  const int64_t sequences = x.shape()[0];
  const int64_t length = x.shape()[1];
  const int64_t width = x.shape()[2];
  require(count >= 0 && count <= length, "last_rows: {} rows are wanted of sequences of {}", count, length);
  Tape& tape = *x.tape;
  const int64_t n = count * width;
  const int64_t skip = (length - count) * width;
  const Tensor y = tape.allocate({sequences, count, width}, x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    for (int64_t b = 0; b < sequences; ++b) {
      const T* sequence = x.value().data<T>() + b * length * width;
      std::copy(sequence + skip, sequence + length * width, y.data<T>() + b * n);
    }
    return tape.record("last_rows", y, {x}, [=](Tape& t, Var result) {
      T* dx = t.gradient_accumulator<T>(x);
      if (dx == nullptr) return;
      for (int64_t b = 0; b < sequences; ++b) {
        scale_into(n, T(1), t.gradient<T>(result) + b * n, GradientSink<T>{dx + b * length * width + skip, true});
      }
    });
  });
}

}  // namespace ropewalk
