#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// y[i] = a x[i] + z[i] for i in [0, n).
template <class T>
void add_scaled(int64_t n, T a, const T* x, const T* z, T* y);

/// y[i] = a x[i], or y[i] += a x[i] where the sink accumulates, for i in [0, n).
template <class T>
void scale_into(int64_t n, T a, const T* x, GradientSink<T> y);

}  // namespace ropewalk
