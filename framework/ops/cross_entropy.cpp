#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "framework/ops/row_reductions-inl.h"
#include "framework/simd-inl.h"

#include <algorithm>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/cross_entropy_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

template <class T>
double log_sum_exp(const T* x, int64_t n) {
  const T greatest = max_of(x, n);
  return static_cast<double>(greatest) + std::log(sum_of_exp(x, n, greatest));
}

// All terms have one sign, so that logits far from 0 lose no digits. Runs as in sum_of_exp.
template <class T>
double mean_log_softmax(const T* x, int64_t n, double log_sum) {
  constexpr int64_t kRun = 1024;
  const T high = static_cast<T>(log_sum);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const T* run = x + begin;
    total += static_cast<double>(sum_of<T>(std::min(kRun, n - begin), [&](auto d, int64_t i) HWY_ATTR {
      return hn::Sub(hn::LoadU(d, run + i), hn::Set(d, high));
    }));
  }
  return total / static_cast<double>(n) - (log_sum - static_cast<double>(high));
}

// row = scale (softmax - smoothed onehot), with the softmax from the log-sum-exp that the forward pass kept.
template <class T>
void softmax_minus_target(const T* x, int64_t n, double log_sum, int32_t target, double label_smoothing, T scale,
                          bool accumulate, T* row) {
  // A log-sum-exp rounded to T would tilt a whole row; its maximum goes with x, which is exact, and the rest is small.
  const T high = static_cast<T>(log_sum);
  const T low = static_cast<T>(log_sum - static_cast<double>(high));
  const T before = accumulate ? row[target] : T(0);
  const T at_target = x[target];
  const T everywhere = static_cast<T>(label_smoothing / static_cast<double>(n));
  vectorise<T>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto shifted = hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, high)), hn::Set(d, low));
    // Rounding may leave the only likely token above 0.
    const auto p = exp_keeping_nan(d, hn::IfThenElse(hn::Gt(shifted, hn::Zero(d)), hn::Zero(d), shifted));
    store_or_add(d, accumulate, hn::Mul(hn::Sub(p, hn::Set(d, everywhere)), hn::Set(d, scale)), row + i);
  });
  const T p = std::exp(std::min(static_cast<T>(static_cast<double>(at_target) - log_sum), T(0)));
  const double wanted = 1 - label_smoothing + label_smoothing / static_cast<double>(n);
  row[target] = before + scale * (p - static_cast<T>(wanted));
}

constexpr auto& LogSumExpF32 = log_sum_exp<float>;
constexpr auto& LogSumExpF64 = log_sum_exp<double>;
constexpr auto& MaxF32 = max_of<float>;
constexpr auto& MaxF64 = max_of<double>;
constexpr auto& MeanLogSoftmaxF32 = mean_log_softmax<float>;
constexpr auto& MeanLogSoftmaxF64 = mean_log_softmax<double>;
constexpr auto& SoftmaxMinusTargetF32 = softmax_minus_target<float>;
constexpr auto& SoftmaxMinusTargetF64 = softmax_minus_target<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(LogSumExpF32);
HWY_EXPORT(LogSumExpF64);
HWY_EXPORT(MaxF32);
HWY_EXPORT(MaxF64);
HWY_EXPORT(MeanLogSoftmaxF32);
HWY_EXPORT(MeanLogSoftmaxF64);
HWY_EXPORT(SoftmaxMinusTargetF32);
HWY_EXPORT(SoftmaxMinusTargetF64);

}  // namespace

template <class T>
double log_sum_exp(const T* x, int64_t n) {
  return for_type<T>(HWY_DYNAMIC_DISPATCH(LogSumExpF32), HWY_DYNAMIC_DISPATCH(LogSumExpF64))(x, n);
}
template decltype(log_sum_exp<float>) log_sum_exp<float>;
template decltype(log_sum_exp<double>) log_sum_exp<double>;

template <class T>
double mean_log_softmax(const T* x, int64_t n, double log_sum) {
  return for_type<T>(HWY_DYNAMIC_DISPATCH(MeanLogSoftmaxF32), HWY_DYNAMIC_DISPATCH(MeanLogSoftmaxF64))(x, n, log_sum);
}
template decltype(mean_log_softmax<float>) mean_log_softmax<float>;
template decltype(mean_log_softmax<double>) mean_log_softmax<double>;

template <class T>
void softmax_minus_target(const T* x, int64_t n, double log_sum, int32_t target, double label_smoothing, double scale,
                          bool accumulate, T* row) {
  auto& kernel = for_type<T>(HWY_DYNAMIC_DISPATCH(SoftmaxMinusTargetF32), HWY_DYNAMIC_DISPATCH(SoftmaxMinusTargetF64));
  kernel(x, n, log_sum, target, label_smoothing, static_cast<T>(scale), accumulate, row);
}
template decltype(softmax_minus_target<float>) softmax_minus_target<float>;
template decltype(softmax_minus_target<double>) softmax_minus_target<double>;

void check_cross_entropy(std::string_view op, int64_t rows, int64_t vocab, const int32_t* targets, double normalizer,
                         double label_smoothing) {
  require(vocab >= 1, "{}: logits without columns leave no token to choose from", op);
  require(normalizer > 0, "{}: the normalizer is {}; it counts the targets of a step and must be positive", op,
          normalizer);
  require(label_smoothing >= 0 && label_smoothing < 1,
          "{}: the label smoothing is {}; it must be at least 0 and less than 1", op, label_smoothing);
  for (int64_t r = 0; r < rows; ++r) {
    require(targets[r] == kIgnoredTarget || (targets[r] >= 0 && targets[r] < vocab),
            "{}: the target at position {} is {}; it must lie in [0, {}), or be -1 to be left out", op, r, targets[r],
            vocab);
  }
}

namespace {

template <class T>
void backward(double dloss, const T* logits, const int32_t* targets, const double* log_sums, int64_t rows, int64_t n,
              double normalizer, double label_smoothing, GradientSink<T> dlogits) {
  for (int64_t r = 0; r < rows; ++r) {
    T* row = dlogits.data + r * n;
    if (targets[r] != kIgnoredTarget) {
      softmax_minus_target(logits + r * n, n, log_sums[r], targets[r], label_smoothing, dloss / normalizer,
                           dlogits.accumulate, row);
    } else if (!dlogits.accumulate) {
      std::fill(row, row + n, T(0));
    }
  }
}

}  // namespace

Var cross_entropy(Var logits, const int32_t* targets, double normalizer, double label_smoothing) {
  require(logits.shape().rank() >= 1, "cross_entropy: logits of shape {} have no columns", logits.shape().to_string());
  check_cross_entropy("cross_entropy", logits.shape().rows(), logits.shape()[-1], targets, normalizer, label_smoothing);
  Tape& tape = *logits.tape;
  const int64_t n = logits.shape()[-1];
  const int64_t rows = logits.shape().rows();
  const Tensor loss = tape.allocate({}, logits.dtype());
  auto* kept = tape.arena().allocate<int32_t>(static_cast<std::size_t>(rows));
  std::copy(targets, targets + rows, kept);
  auto* log_sums = tape.arena().allocate<double>(static_cast<std::size_t>(rows));
  return dispatch(logits.dtype(), [&]<class T>() {
    const T* x = logits.value().data<T>();
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      if (kept[r] == kIgnoredTarget) continue;
      log_sums[r] = log_sum_exp(x + r * n, n);
      sum += row_cross_entropy(x + r * n, n, log_sums[r], kept[r], label_smoothing);
    }
    loss.set(0, sum / normalizer);
    return tape.record("cross_entropy", loss, {logits}, [=](Tape& t, Var result) {
      const GradientSink<T> dlogits = t.gradient_sink<T>(logits);
      const auto dloss = static_cast<double>(*t.gradient<T>(result));
      if (!dlogits) return;
      backward(dloss, logits.value().data<T>(), kept, log_sums, rows, n, normalizer, label_smoothing, dlogits);
    });
  });
}

void token_losses(const Tensor& logits, const int32_t* targets, float* losses) {
  require(logits.shape.rank() >= 1, "token_losses: logits of shape {} have no columns", logits.shape.to_string());
  check_cross_entropy("token_losses", logits.shape.rows(), logits.shape[-1], targets, 1.0);
  const int64_t n = logits.shape[-1];
  dispatch(logits.dtype, [&]<class T>() {
    for (int64_t r = 0; r < logits.shape.rows(); ++r) {
      const T* x = logits.data<T>() + r * n;
      losses[r] = targets[r] == kIgnoredTarget
                      ? 0.0F
                      : static_cast<float>(log_sum_exp(x, n) - static_cast<double>(x[targets[r]]));
    }
  });
}

void argmax_rows(const Tensor& logits, int32_t* columns) {
  require(logits.shape.rank() >= 1 && logits.shape[-1] >= 1, "argmax_rows: the rows of a shape {} are empty",
          logits.shape.to_string());
  const int64_t n = logits.shape[-1];
  dispatch(logits.dtype, [&]<class T>() {
    auto& max_of = for_type<T>(HWY_DYNAMIC_DISPATCH(MaxF32), HWY_DYNAMIC_DISPATCH(MaxF64));
    for (int64_t r = 0; r < logits.shape.rows(); ++r) {
      const T* x = logits.data<T>() + r * n;
      const T greatest = max_of(x, n);
      const T* found = std::find(x, x + n, greatest);
      // With a NaN in the row the vector maximum may be anything; the plain loop skips it.
      if (std::any_of(x, x + n, [](T v) { return v != v; })) {
        found = x;
        for (const T* v = x; v != x + n; ++v) {
          if (*v > *found || (*found != *found && *v == *v)) found = v;
        }
      }
      columns[r] = static_cast<int32_t>(found - x);
    }
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
