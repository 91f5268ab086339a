#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/norms.cpp"
#include <hwy/foreach_target.h>

#include "optim/squares-inl.h"

#include <cmath>

#include "framework/error.h"
#include "framework/for_type.h"
#include "optim/norms.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

constexpr auto& SumOfSquaresF32 = sum_of_squares<float>;
constexpr auto& SumOfSquaresF64 = sum_of_squares<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(SumOfSquaresF32);
HWY_EXPORT(SumOfSquaresF64);

template <class T>
double sum_of_squares(const T* x, int64_t n) {
  return for_type<T>(HWY_DYNAMIC_DISPATCH(SumOfSquaresF32), HWY_DYNAMIC_DISPATCH(SumOfSquaresF64))(x, n);
}

}  // namespace

double squared_norm(const Tensor& x) {
  require(x.device == Device::cpu, "the norm of a tensor on another device; copy it to the CPU first");
  return dispatch(x.dtype, [&]<class T>() { return sum_of_squares(x.data<T>(), x.elements()); });
}

void squared_norms(const ParameterSet& parameters, const Tensor& flat, std::span<double> out) {
  require(flat.device == Device::cpu, "norms of a buffer on another device; copy it to the CPU first");
  require(flat.elements() == parameters.flat_elements(), "norms of a buffer of {} elements, the parameters have {}",
          flat.elements(), parameters.flat_elements());
  require(out.size() == parameters.size(), "room for {} norms, there are {} parameters", out.size(), parameters.size());
  dispatch(flat.dtype, [&]<class T>() {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Parameter& parameter = parameters.all()[i];
      out[i] = sum_of_squares(flat.data<T>() + parameter.offset, parameter.elements());
    }
  });
}

double global_norm(std::span<const double> squared) {
  double sum = 0;
  for (double square : squared) sum += square;
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace ropewalk
#endif  // HWY_ONCE
