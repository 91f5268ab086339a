#include "framework/ops/relative_bias.h"

#include <cmath>

#include "framework/ops/checks.h"

namespace ropewalk {
namespace {

template <class T>
T distance(int64_t offset) {
  return static_cast<T>(std::abs(offset));
}

template <class T>
void bucket_forward(const T* table, std::span<const int32_t> buckets, int64_t heads, T* bias) {
  const auto n = static_cast<int64_t>(buckets.size());
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < n; ++c) bias[h * n + c] = table[buckets[static_cast<std::size_t>(c)] * heads + h];
  }
}

template <class T>
void bucket_backward(const T* dbias, std::span<const int32_t> buckets, int64_t heads, T* dtable) {
  if (dtable == nullptr) return;
  const auto n = static_cast<int64_t>(buckets.size());
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < n; ++c) dtable[buckets[static_cast<std::size_t>(c)] * heads + h] += dbias[h * n + c];
  }
}

template <class T>
void alibi_forward(const T* slopes, int64_t heads, int64_t first_offset, int64_t n, T* bias) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < n; ++c) bias[h * n + c] = -slopes[h] * distance<T>(first_offset + c);
  }
}

template <class T>
void alibi_backward(const T* dbias, int64_t heads, int64_t first_offset, int64_t n, T* dslopes) {
  if (dslopes == nullptr) return;
  for (int64_t h = 0; h < heads; ++h) {
    T sum = 0;
    for (int64_t c = 0; c < n; ++c) sum -= dbias[h * n + c] * distance<T>(first_offset + c);
    dslopes[h] += sum;
  }
}

template <class T>
void kerple_forward(const T* amplitude, const T* rate, int64_t heads, int64_t first_offset, int64_t n, T* bias) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < n; ++c) {
      // Column of the opposite offset, whose logarithm is there already.
      const int64_t opposite = -2 * first_offset - c;
      bias[h * n + c] = opposite >= 0 && opposite < c
                            ? bias[h * n + opposite]
                            : -amplitude[h] * std::log1p(rate[h] * distance<T>(first_offset + c));
    }
  }
}

template <class T>
void kerple_backward(const T* dbias, const T* amplitude, const T* rate, int64_t heads, int64_t first_offset, int64_t n,
                     T* damplitude, T* drate) {
  for (int64_t h = 0; h < heads; ++h) {
    T da = 0;
    T dr = 0;
    for (int64_t c = 0; c < n; ++c) {
      const T o = distance<T>(first_offset + c);
      da -= dbias[h * n + c] * std::log1p(rate[h] * o);
      dr -= dbias[h * n + c] * amplitude[h] * o / (1 + rate[h] * o);
    }
    if (damplitude != nullptr) damplitude[h] += da;
    if (drate != nullptr) drate[h] += dr;
  }
}

template <class T>
void relative_key_forward(const T* keys, const T* u, const T* v, int64_t heads, int64_t d, int64_t n, T scale,
                          T* bias) {
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t h = 0; h < heads; ++h) {
      const T* key = keys + (c * heads + h) * d;
      T sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += (v[h * d + i] - u[h * d + i]) * key[i];
      bias[h * n + c] = scale * sum;
    }
  }
}

template <class T>
void relative_key_backward(const T* dbias, const T* keys, const T* u, const T* v, int64_t heads, int64_t d, int64_t n,
                           T scale, T* dkeys, T* du, T* dv) {
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t h = 0; h < heads; ++h) {
      const T ds = scale * dbias[h * n + c];
      const int64_t at = (c * heads + h) * d;
      for (int64_t i = 0; i < d; ++i) {
        if (dkeys != nullptr) dkeys[at + i] += ds * (v[h * d + i] - u[h * d + i]);
        if (dv != nullptr) dv[h * d + i] += ds * keys[at + i];
        if (du != nullptr) du[h * d + i] -= ds * keys[at + i];
      }
    }
  }
}

}  // namespace

Var bucket_bias(Var table, std::span<const int32_t> bucket_of_offset) {
  Tape& tape = *table.tape;
  check_shape("bucket_bias: table", table.shape(), {-1, -1});
  const int64_t heads = table.shape()[1];
  for (const int32_t bucket : bucket_of_offset) {
    require(bucket >= 0 && bucket < table.shape()[0], "bucket_bias: bucket {} of a table of {}", bucket,
            table.shape()[0]);
  }
  Tensor bias = tape.allocate({heads, static_cast<int64_t>(bucket_of_offset.size())}, table.dtype());
  return dispatch(table.dtype(), [&]<class T>() {
    bucket_forward(table.value().data<T>(), bucket_of_offset, heads, bias.data<T>());
    return tape.record("bucket_bias", bias, {table}, [=](Tape& t, Var result) {
      bucket_backward(t.gradient<T>(result), bucket_of_offset, heads, t.gradient_accumulator<T>(table));
    });
  });
}

Var alibi_bias(Var slopes, int64_t first_offset, int64_t n) {
  Tape& tape = *slopes.tape;
  check_shape("alibi_bias: slopes", slopes.shape(), {-1});
  const int64_t heads = slopes.shape()[0];
  Tensor bias = tape.allocate({heads, n}, slopes.dtype());
  return dispatch(slopes.dtype(), [&]<class T>() {
    alibi_forward(slopes.value().data<T>(), heads, first_offset, n, bias.data<T>());
    return tape.record("alibi_bias", bias, {slopes}, [=](Tape& t, Var result) {
      alibi_backward(t.gradient<T>(result), heads, first_offset, n, t.gradient_accumulator<T>(slopes));
    });
  });
}

Var kerple_bias(Var amplitude, Var rate, int64_t first_offset, int64_t n) {
  Tape& tape = *amplitude.tape;
  const int64_t heads = amplitude.shape()[0];
  check_shape("kerple_bias: amplitude", amplitude.shape(), {heads});
  check_shape("kerple_bias: rate", rate.shape(), {heads});
  Tensor bias = tape.allocate({heads, n}, amplitude.dtype());
  return dispatch(amplitude.dtype(), [&]<class T>() {
    kerple_forward(amplitude.value().data<T>(), rate.value().data<T>(), heads, first_offset, n, bias.data<T>());
    return tape.record("kerple_bias", bias, {amplitude, rate}, [=](Tape& t, Var result) {
      kerple_backward(t.gradient<T>(result), amplitude.value().data<T>(), rate.value().data<T>(), heads, first_offset,
                      n, t.gradient_accumulator<T>(amplitude), t.gradient_accumulator<T>(rate));
    });
  });
}

Var relative_key_bias(Var relative_keys, Var u, Var v, double scale) {
  Tape& tape = *relative_keys.tape;
  check_shape("relative_key_bias: u", u.shape(), {-1, -1});
  const int64_t heads = u.shape()[0];
  const int64_t d = u.shape()[1];
  check_shape("relative_key_bias: v", v.shape(), {heads, d});
  check_shape("relative_key_bias: relative_keys", relative_keys.shape(), {-1, heads * d});
  check_same_dtype("relative_key_bias: u", relative_keys, u);
  check_same_dtype("relative_key_bias: v", relative_keys, v);
  const int64_t n = relative_keys.shape()[0];
  Tensor bias = tape.allocate({heads, n}, relative_keys.dtype());
  return dispatch(relative_keys.dtype(), [&]<class T>() {
    const auto factor = static_cast<T>(scale);
    relative_key_forward(relative_keys.value().data<T>(), u.value().data<T>(), v.value().data<T>(), heads, d, n, factor,
                         bias.data<T>());
    return tape.record("relative_key_bias", bias, {relative_keys, u, v}, [=](Tape& t, Var result) {
      relative_key_backward(t.gradient<T>(result), relative_keys.value().data<T>(), u.value().data<T>(),
                            v.value().data<T>(), heads, d, n, factor, t.gradient_accumulator<T>(relative_keys),
                            t.gradient_accumulator<T>(u), t.gradient_accumulator<T>(v));
    });
  });
}

}  // namespace ropewalk
