#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// y[i] = a x[i] + z[i] for i in [0, n).
void add_scaled(int64_t n, float a, const float* x, const float* z, float* y);
void add_scaled(int64_t n, double a, const double* x, const double* z, double* y);

/// y[i] = a x[i], or y[i] += a x[i] where the sink accumulates, for i in [0, n).
void scale_into(int64_t n, float a, const float* x, GradientSink<float> y);
void scale_into(int64_t n, double a, const double* x, GradientSink<double> y);

}  // namespace ropewalk
