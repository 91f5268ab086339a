#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw.cpp"
#include <hwy/foreach_target.h>

#include "optim/squares-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/error.h"
#include "framework/for_type.h"
#include "optim/adamw.h"
#include "optim/adamw_kernel.h"
#include "optim/norms.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

/// Elements [begin, end) of one parameter; update[i - begin] receives new minus old value if kKeepUpdate.
template <bool kKeepUpdate, class T>
HWY_INLINE void update_range(const AdamWCoefficients& c, const AdamWArrays<T>& a, int64_t begin, int64_t end,
                             T* update) {
  const T* gradient = a.gradient + begin;
  T* value = a.value + begin;
  T* first_moment = a.first_moment + begin;
  T* second_moment = a.second_moment + begin;
  vectorise<T>(end - begin, [&](auto d, int64_t i) HWY_ATTR {
    const auto constant = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
    const auto least_normal = hn::Set(d, std::numeric_limits<T>::min());
    // `x < limit ? 0 : x` rather than `x >= limit ? x : 0`, here and at the floor: the former keeps a NaN.
    const auto g = hn::Mul(constant(c.clip), hn::LoadU(d, gradient + i));
    auto m = hn::MulAdd(constant(c.beta1), hn::LoadU(d, first_moment + i), hn::Mul(constant(1 - c.beta1), g));
    m = hn::IfThenZeroElse(hn::Lt(hn::Abs(m), least_normal), m);
    auto v = hn::Mul(hn::Mul(constant(1 - c.beta2), g), g);
    v = hn::MulAdd(constant(c.beta2), hn::LoadU(d, second_moment + i), v);
    v = hn::IfThenZeroElse(hn::Lt(v, least_normal), v);
    const auto old_value = hn::LoadU(d, value + i);
    const auto root = hn::MulAdd(hn::Sqrt(v), constant(c.second_moment_root), constant(c.eps));
    // Decay and step leave the value together, so that it is rounded once; the factor 1 - lr weight_decay, rounded to
    // f32, would decay all weights too much or all too little.
    const auto change = hn::MulAdd(constant(c.decay), old_value, hn::Div(hn::Mul(constant(c.step_size), m), root));
    auto new_value = hn::Sub(old_value, change);
    const auto floor = constant(c.floor);
    new_value = hn::IfThenElse(hn::Lt(new_value, floor), floor, new_value);
    hn::StoreU(m, d, first_moment + i);
    hn::StoreU(v, d, second_moment + i);
    hn::StoreU(new_value, d, value + i);
    if constexpr (kKeepUpdate) hn::StoreU(hn::Sub(new_value, old_value), d, update + i);
  });
}

template <class T>
void update(const AdamWCoefficients& c, const AdamWArrays<T>& a, AdamWSquares* squares) {
  if (squares == nullptr) {
    update_range<false, T>(c, a, 0, a.n, nullptr);
    return;
  }
  // Runs short enough that values and updates are still in L1 when they are squared.
  constexpr int64_t kRun = 512;
  HWY_ALIGN T update[kRun];
  *squares = {};
  for (int64_t begin = 0; begin < a.n; begin += kRun) {
    const int64_t end = std::min(begin + kRun, a.n);
    update_range<true, T>(c, a, begin, end, update);
    squares->value += sum_of_squares(a.value + begin, end - begin);
    squares->update += sum_of_squares(update, end - begin);
  }
}

constexpr auto& UpdateF32 = update<float>;
constexpr auto& UpdateF64 = update<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(UpdateF32);
HWY_EXPORT(UpdateF64);

constexpr double kNoFloor = -std::numeric_limits<double>::infinity();

}  // namespace

AdamW::AdamW(const ParameterSet& parameters, const OptimConfig& config)
    : beta1_(config.beta1), beta2_(config.beta2), eps_(config.eps), weight_decay_(config.weight_decay) {
  require(parameters.allocated(), "AdamW needs parameters that have their memory; allocate them first");
  const DType dtype = parameters.dtype();
  require(beta1_ >= 0 && beta1_ < 1, "optim.beta1 is {}; it must be at least 0 and below 1", beta1_);
  require(beta2_ >= 0 && beta2_ < 1, "optim.beta2 is {}; it must be at least 0 and below 1", beta2_);
  const double least_eps =
      dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  require(eps_ >= least_eps && std::isfinite(eps_),
          "optim.eps is {}; in {} it must be finite and at least {}, or an element without a gradient becomes 0/0",
          eps_, name_of(dtype), least_eps);
  values_ = parameters.flat_values();
  first_moment_ = Tensor::zeros(values_.shape, dtype);
  second_moment_ = Tensor::zeros(values_.shape, dtype);
  segments_.reserve(parameters.size());
  for (const Parameter& parameter : parameters.all()) {
    segments_.push_back({.offset = parameter.offset,
                         .elements = parameter.elements(),
                         .decays = parameter.role == Role::weight,
                         .floor = parameter.role == Role::positive ? parameter.floor : kNoFloor});
  }
}

void AdamW::step(const Tensor& gradient, double clip, double lr, int64_t step, UpdateNorms* norms,
                 std::span<const int64_t> frozen_steps) {
  require(step >= 1, "AdamW step {}: steps count from 1", step);
  require(gradient.device == values_.device && gradient.dtype == values_.dtype,
          "AdamW: the gradients are {}, the parameters {}; both must be of one dtype on one device",
          name_of(gradient.dtype), name_of(values_.dtype));
  require(gradient.elements() == values_.elements(), "AdamW: {} gradients for {} values", gradient.elements(),
          values_.elements());
  require(norms == nullptr || (norms->values.size() == segments_.size() && norms->updates.size() == segments_.size()),
          "AdamW: the norms have room for {} and {} parameters, there are {}", norms ? norms->values.size() : 0,
          norms ? norms->updates.size() : 0, segments_.size());
  require(frozen_steps.empty() || frozen_steps.size() == segments_.size(),
          "AdamW: the frozen steps of {} parameters, there are {}", frozen_steps.size(), segments_.size());
  AdamWCoefficients coefficients{.clip = clip, .beta1 = beta1_, .beta2 = beta2_, .eps = eps_};
  dispatch(values_.dtype, [&]<class T>() {
    auto& update = for_type<T>(HWY_DYNAMIC_DISPATCH(UpdateF32), HWY_DYNAMIC_DISPATCH(UpdateF64));
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const Segment& segment = segments_[i];
      const int64_t own_step = step - (frozen_steps.empty() ? 0 : frozen_steps[i]);
      if (own_step < 1) {
        if (norms == nullptr) continue;
        Tensor own = values_;
        own.shape = {segment.elements};
        own.bytes = values_.data<T>() + segment.offset;
        norms->values[i] = squared_norm(own);
        norms->updates[i] = 0;
        continue;
      }
      const auto s = static_cast<double>(own_step);
      coefficients.step_size = lr / (1 - std::pow(beta1_, s));
      coefficients.second_moment_root = 1 / std::sqrt(1 - std::pow(beta2_, s));
      coefficients.decay = segment.decays ? lr * weight_decay_ : 0.0;
      coefficients.floor = segment.floor;
      const AdamWArrays<T> arrays{.n = segment.elements,
                                  .gradient = gradient.data<T>() + segment.offset,
                                  .value = values_.data<T>() + segment.offset,
                                  .first_moment = first_moment_.data<T>() + segment.offset,
                                  .second_moment = second_moment_.data<T>() + segment.offset};
      if (norms == nullptr) {
        update(coefficients, arrays, nullptr);
      } else {
        AdamWSquares squares;
        update(coefficients, arrays, &squares);
        norms->values[i] = squares.value;
        norms->updates[i] = squares.update;
      }
    }
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
