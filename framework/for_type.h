#pragma once

#include <type_traits>

namespace ropewalk {

/// Of the two instances of a kernel, that for T, which is float or double. A kernel is a template that Google Highway
/// compiles for every instruction set; Highway exports functions by plain names, so its instances get one each:
///
///   constexpr auto& ForwardF32 = forward<float>;    // where the kernel stands, as for double
///   HWY_EXPORT(ForwardF32);                         // once a file, as for double
///   auto& forward = for_type<T>(HWY_DYNAMIC_DISPATCH(ForwardF32), HWY_DYNAMIC_DISPATCH(ForwardF64));
template <class T, class F32, class F64>
constexpr auto& for_type(F32& f32, F64& f64) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, float>) {
    return f32;
  } else {
    return f64;
  }
}

}  // namespace ropewalk
