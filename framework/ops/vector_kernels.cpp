#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/vector_kernels.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include "framework/ops/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

// Names of their own: argument-dependent lookup would prefer the public overloads and call them without end.
template <class T>
void add_scaled_kernel(int64_t n, T a, const T* x, const T* z, T* y) {
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), hn::LoadU(d, z + i)), d, y + i);
  });
}

template <class T>
void scale_into_kernel(int64_t n, T a, const T* x, GradientSink<T> y) {
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    store_or_add(d, y.accumulate, hn::Mul(hn::Set(d, a), hn::LoadU(d, x + i)), y.data + i);
  });
}

void AddScaledF32(int64_t n, float a, const float* x, const float* z, float* y) {
  add_scaled_kernel(n, a, x, z, y);
}
void AddScaledF64(int64_t n, double a, const double* x, const double* z, double* y) {
  add_scaled_kernel(n, a, x, z, y);
}
void ScaleIntoF32(int64_t n, float a, const float* x, GradientSink<float> y) {
  scale_into_kernel(n, a, x, y);
}
void ScaleIntoF64(int64_t n, double a, const double* x, GradientSink<double> y) {
  scale_into_kernel(n, a, x, y);
}

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {

HWY_EXPORT(AddScaledF32);
HWY_EXPORT(AddScaledF64);
HWY_EXPORT(ScaleIntoF32);
HWY_EXPORT(ScaleIntoF64);

void add_scaled(int64_t n, float a, const float* x, const float* z, float* y) {
  HWY_DYNAMIC_DISPATCH(AddScaledF32)(n, a, x, z, y);
}
void add_scaled(int64_t n, double a, const double* x, const double* z, double* y) {
  HWY_DYNAMIC_DISPATCH(AddScaledF64)(n, a, x, z, y);
}
void scale_into(int64_t n, float a, const float* x, GradientSink<float> y) {
  HWY_DYNAMIC_DISPATCH(ScaleIntoF32)(n, a, x, y);
}
void scale_into(int64_t n, double a, const double* x, GradientSink<double> y) {
  HWY_DYNAMIC_DISPATCH(ScaleIntoF64)(n, a, x, y);
}

}  // namespace ropewalk
#endif  // HWY_ONCE
