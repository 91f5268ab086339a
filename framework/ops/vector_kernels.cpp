#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/vector_kernels.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include "framework/for_type.h"
#include "framework/ops/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void add_scaled(int64_t n, T a, const T* x, const T* z, T* y) {
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), hn::LoadU(d, z + i)), d, y + i);
  });
}

template <class T>
void scale_into(int64_t n, T a, const T* x, GradientSink<T> y) {
  vectorise<T>(n, [=](auto d, int64_t i) HWY_ATTR {
    store_or_add(d, y.accumulate, hn::Mul(hn::Set(d, a), hn::LoadU(d, x + i)), y.data + i);
  });
}

constexpr auto& AddScaledF32 = add_scaled<float>;
constexpr auto& AddScaledF64 = add_scaled<double>;
constexpr auto& ScaleIntoF32 = scale_into<float>;
constexpr auto& ScaleIntoF64 = scale_into<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {

HWY_EXPORT(AddScaledF32);
HWY_EXPORT(AddScaledF64);
HWY_EXPORT(ScaleIntoF32);
HWY_EXPORT(ScaleIntoF64);

template <class T>
void add_scaled(int64_t n, T a, const T* x, const T* z, T* y) {
  for_type<T>(HWY_DYNAMIC_DISPATCH(AddScaledF32), HWY_DYNAMIC_DISPATCH(AddScaledF64))(n, a, x, z, y);
}
template decltype(add_scaled<float>) add_scaled<float>;
template decltype(add_scaled<double>) add_scaled<double>;

template <class T>
void scale_into(int64_t n, T a, const T* x, GradientSink<T> y) {
  for_type<T>(HWY_DYNAMIC_DISPATCH(ScaleIntoF32), HWY_DYNAMIC_DISPATCH(ScaleIntoF64))(n, a, x, y);
}
template decltype(scale_into<float>) scale_into<float>;
template decltype(scale_into<double>) scale_into<double>;

}  // namespace ropewalk
#endif  // HWY_ONCE
