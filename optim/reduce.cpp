#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/reduce.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include "framework/error.h"
#include "framework/for_type.h"
#include "optim/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
void add_into(T* total, const T* lane, int64_t n) {
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR { store_or_add(d, true, hn::LoadU(d, lane + i), total + i); });
}

constexpr auto& AddIntoF32 = add_into<float>;
constexpr auto& AddIntoF64 = add_into<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(AddIntoF32);
HWY_EXPORT(AddIntoF64);

}  // namespace

void add_into(const Tensor& total, const Tensor& lane) {
  require(total.device == Device::cpu && lane.device == Device::cpu,
          "a sum of buffers on another device; copy them to the CPU first");
  require(total.dtype == lane.dtype, "a buffer of {} is added to one of {}; both must have one dtype",
          name_of(lane.dtype), name_of(total.dtype));
  require(total.elements() == lane.elements(), "a buffer of {} elements is added to one of {}", lane.elements(),
          total.elements());
  dispatch(total.dtype, [&]<class T>() {
    auto& kernel = for_type<T>(HWY_DYNAMIC_DISPATCH(AddIntoF32), HWY_DYNAMIC_DISPATCH(AddIntoF64));
    kernel(total.data<T>(), lane.data<T>(), total.elements());
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
