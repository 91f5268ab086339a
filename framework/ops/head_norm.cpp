#include "framework/ops/head_norm.h"

#include <cmath>

namespace ropewalk {
namespace {

template <class T>
struct HeadNorm {
  int64_t rows, n_heads, n_kv_heads, d;
  T eps;
  int64_t width() const { return (n_heads + 2 * n_kv_heads) * d; }
  int64_t normed_heads() const { return n_heads + n_kv_heads; }
};

// Heads have a handful of columns, so the loops below run over one cache line or two; the compiler vectorises them.
template <class T>
T inverse_rms(const T* x, int64_t d, T eps) {
  T sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += x[c] * x[c];
  return T(1) / std::sqrt(sum / static_cast<T>(d) + eps);
}

template <class T>
void forward(const HeadNorm<T>& n, const T* x, const T* query_weight, const T* key_weight, T* y) {
  for (int64_t r = 0; r < n.rows; ++r) {
    const T* row = x + r * n.width();
    T* out = y + r * n.width();
    for (int64_t h = 0; h < n.normed_heads(); ++h) {
      const T* weight = h < n.n_heads ? query_weight : key_weight;
      const T* head = row + h * n.d;
      const T inverse = inverse_rms(head, n.d, n.eps);
      for (int64_t c = 0; c < n.d; ++c) out[h * n.d + c] = head[c] * inverse * weight[c];
    }
    for (int64_t c = n.normed_heads() * n.d; c < n.width(); ++c) out[c] = row[c];
  }
}

/// With z = x / rms: dweight += dy z;  dx += (dy weight - z mean(dy weight z)) / rms.
template <class T>
void backward(const HeadNorm<T>& n, const T* dy, const T* x, const T* query_weight, const T* key_weight,
              GradientSink<T> dx, T* d_query_weight, T* d_key_weight) {
  for (int64_t r = 0; r < n.rows; ++r) {
    const T* row = x + r * n.width();
    const T* drow = dy + r * n.width();
    for (int64_t h = 0; h < n.normed_heads(); ++h) {
      const bool query = h < n.n_heads;
      const T* weight = query ? query_weight : key_weight;
      T* d_weight = query ? d_query_weight : d_key_weight;
      const T* head = row + h * n.d;
      const T* dhead = drow + h * n.d;
      const T inverse = inverse_rms(head, n.d, n.eps);
      T dot = 0;
      for (int64_t c = 0; c < n.d; ++c) dot += dhead[c] * weight[c] * head[c];
      dot *= inverse * inverse / static_cast<T>(n.d);
      if (d_weight != nullptr) {
        for (int64_t c = 0; c < n.d; ++c) d_weight[c] += dhead[c] * head[c] * inverse;
      }
      if (!dx) continue;
      T* out = dx.data + r * n.width() + h * n.d;
      for (int64_t c = 0; c < n.d; ++c) {
        const T g = (dhead[c] * weight[c] - head[c] * dot) * inverse;
        out[c] = dx.accumulate ? out[c] + g : g;
      }
    }
    if (!dx) continue;
    T* out = dx.data + r * n.width();
    for (int64_t c = n.normed_heads() * n.d; c < n.width(); ++c) out[c] = dx.accumulate ? out[c] + drow[c] : drow[c];
  }
}

}  // namespace

Var head_norm(Var qkv, Var query_weight, Var key_weight, int64_t n_heads, int64_t n_kv_heads, double eps) {
  Tape& tape = *qkv.tape;
  const int64_t d = query_weight.shape()[0];
  check_shape("head_norm: qkv", qkv.shape(), {-1, -1, (n_heads + 2 * n_kv_heads) * d});
  check_shape("head_norm: query_weight", query_weight.shape(), {d});
  check_shape("head_norm: key_weight", key_weight.shape(), {d});
  Tensor y = tape.allocate(qkv.shape(), qkv.dtype());
  return dispatch(qkv.dtype(), [&]<class T>() {
    const HeadNorm<T> n{qkv.shape().rows(), n_heads, n_kv_heads, d, static_cast<T>(eps)};
    forward(n, qkv.value().data<T>(), query_weight.value().data<T>(), key_weight.value().data<T>(), y.data<T>());
    return tape.record("head_norm", y, {qkv, query_weight, key_weight}, [=](Tape& t, Var result) {
      backward(n, t.gradient<T>(result), qkv.value().data<T>(), query_weight.value().data<T>(),
               key_weight.value().data<T>(), t.gradient_sink<T>(qkv), t.gradient_accumulator<T>(query_weight),
               t.gradient_accumulator<T>(key_weight));
    });
  });
}

}  // namespace ropewalk
