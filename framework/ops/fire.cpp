#include "framework/ops/fire.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "framework/ops/checks.h"

namespace ropewalk {
namespace {

template <class T>
void log_distance_forward(T c, int64_t first_offset, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    // Column of the opposite offset, whose logarithm is there already.
    const int64_t opposite = -2 * first_offset - i;
    y[i] = opposite >= 0 && opposite < i ? y[opposite] : std::log1p(c * static_cast<T>(std::abs(first_offset + i)));
  }
}

template <class T>
void log_distance_backward(const T* dy, T c, int64_t first_offset, int64_t n, T* dc) {
  if (dc == nullptr) return;
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto distance = static_cast<T>(std::abs(first_offset + i));
    sum += dy[i] * distance / (1 + c * distance);
  }
  *dc += sum;
}

template <class T>
void log_normalizer_forward(T c, T multiplier, T length, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = 1 / std::log1p(c * std::max(static_cast<T>(i), length * multiplier));
}

template <class T>
void log_normalizer_backward(const T* dy, const T* y, T c, T multiplier, T length, int64_t n, T* dc, T* dmultiplier) {
  T of_c = 0;
  T of_multiplier = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool short_of = static_cast<T>(i) < length * multiplier;
    const T x = short_of ? length * multiplier : static_cast<T>(i);
    const T slope = dy[i] * y[i] * y[i] / (1 + c * x);
    of_c -= slope * x;
    if (short_of) of_multiplier -= slope * c * length;
  }
  if (dc != nullptr) *dc += of_c;
  if (dmultiplier != nullptr) *dmultiplier += of_multiplier;
}

/// The hidden units of an MLP of one input, and where each stands among the knots.
template <class T>
struct ReluUnits {
  const T* weight;
  const T* bias;
  int64_t width;
  T* knots;       ///< [width], ascending
  int32_t* rank;  ///< [width]: index of the knot of each unit

  /// Sorts the knots. Where that of a unit which no input switches on or off stands does not matter.
  void sort() const {
    for (int64_t k = 0; k < width; ++k) {
      const T knot = -bias[k] / weight[k];
      constexpr T kGreatest = std::numeric_limits<T>::max();
      knots[k] = std::isnan(knot) ? kGreatest : std::clamp(knot, -kGreatest, kGreatest);
    }
    for (int64_t k = 0; k < width; ++k) {
      int32_t before = 0;
      for (int64_t o = 0; o < width; ++o) before += knots[o] < knots[k] || (knots[o] == knots[k] && o < k) ? 1 : 0;
      rank[k] = before;
    }
    std::sort(knots, knots + width);
  }
  /// Whether unit k is active on a line.
  bool active(int64_t k, int64_t line) const {
    if (weight[k] > 0) return rank[k] < line;
    return weight[k] < 0 ? rank[k] >= line : bias[k] > 0;
  }
};

template <class T>
void lines_forward(const ReluUnits<T>& units, const T* output, const T* output_bias, int64_t heads, T* y) {
  const int64_t lines = units.width + 1;
  std::copy_n(units.knots, units.width, y);
  y[units.width] = 0;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t l = 0; l < lines; ++l) {
      T slope = 0;
      T at_zero = output_bias[h];
      for (int64_t k = 0; k < units.width; ++k) {
        if (!units.active(k, l)) continue;
        slope += output[h * units.width + k] * units.weight[k];
        at_zero += output[h * units.width + k] * units.bias[k];
      }
      y[(1 + h) * lines + l] = slope;
      y[(1 + heads + h) * lines + l] = at_zero;
    }
  }
}

template <class T>
void lines_backward(const T* dy, const ReluUnits<T>& units, const T* output, int64_t heads, T* dweight, T* dbias,
                    T* doutput, T* doutput_bias) {
  const int64_t lines = units.width + 1;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t l = 0; l < lines; ++l) {
      const T slope = dy[(1 + h) * lines + l];
      const T at_zero = dy[(1 + heads + h) * lines + l];
      if (doutput_bias != nullptr) doutput_bias[h] += at_zero;
      for (int64_t k = 0; k < units.width; ++k) {
        if (!units.active(k, l)) continue;
        const int64_t of_output = h * units.width + k;
        if (dweight != nullptr) dweight[k] += slope * output[of_output];
        if (dbias != nullptr) dbias[k] += at_zero * output[of_output];
        if (doutput != nullptr) doutput[of_output] += slope * units.weight[k] + at_zero * units.bias[k];
      }
    }
  }
}

}  // namespace

Var log_distance(Var c, int64_t first_offset, int64_t n) {
  Tape& tape = *c.tape;
  check_shape("log_distance: c", c.shape(), {1});
  Tensor y = tape.allocate({n}, c.dtype());
  return dispatch(c.dtype(), [&]<class T>() {
    log_distance_forward(*c.value().data<T>(), first_offset, n, y.data<T>());
    return tape.record("log_distance", y, {c}, [=](Tape& t, Var result) {
      log_distance_backward(t.gradient<T>(result), *c.value().data<T>(), first_offset, n, t.gradient_accumulator<T>(c));
    });
  });
}

Var log_normalizer(Var c, Var multiplier, double length, int64_t n) {
  Tape& tape = *c.tape;
  check_shape("log_normalizer: c", c.shape(), {1});
  check_shape("log_normalizer: multiplier", multiplier.shape(), {1});
  check_same_dtype("log_normalizer: multiplier", c, multiplier);
  require(length > 0, "log_normalizer: length = {} must be positive", length);
  Tensor y = tape.allocate({n}, c.dtype());
  return dispatch(c.dtype(), [&]<class T>() {
    const auto unit = static_cast<T>(length);
    log_normalizer_forward(*c.value().data<T>(), *multiplier.value().data<T>(), unit, n, y.data<T>());
    return tape.record("log_normalizer", y, {c, multiplier}, [=](Tape& t, Var result) {
      log_normalizer_backward(t.gradient<T>(result), result.value().data<T>(), *c.value().data<T>(),
                              *multiplier.value().data<T>(), unit, n, t.gradient_accumulator<T>(c),
                              t.gradient_accumulator<T>(multiplier));
    });
  });
}

Var relu_lines(Var hidden, Var hidden_bias, Var output, Var output_bias) {
  Tape& tape = *hidden.tape;
  check_shape("relu_lines: output", output.shape(), {-1, -1});
  const int64_t heads = output.shape()[0];
  const int64_t width = output.shape()[1];
  require(hidden.value().elements() == width, "relu_lines: {} hidden weights of one input for an output of {} units",
          hidden.value().elements(), width);
  check_shape("relu_lines: hidden_bias", hidden_bias.shape(), {width});
  check_shape("relu_lines: output_bias", output_bias.shape(), {heads});
  check_same_dtype("relu_lines: hidden_bias", hidden, hidden_bias);
  check_same_dtype("relu_lines: output", hidden, output);
  check_same_dtype("relu_lines: output_bias", hidden, output_bias);
  Tensor y = tape.allocate({2 * heads + 1, width + 1}, hidden.dtype());
  return dispatch(hidden.dtype(), [&]<class T>() {
    const ReluUnits<T> units{hidden.value().data<T>(), hidden_bias.value().data<T>(), width,
                             tape.arena().allocate<T>(static_cast<std::size_t>(width)),
                             tape.arena().allocate<int32_t>(static_cast<std::size_t>(width))};
    units.sort();
    lines_forward(units, output.value().data<T>(), output_bias.value().data<T>(), heads, y.data<T>());
    const auto inputs = {hidden, hidden_bias, output, output_bias};
    return tape.record("relu_lines", y, inputs, [=](Tape& t, Var result) {
      lines_backward(t.gradient<T>(result), units, output.value().data<T>(), heads, t.gradient_accumulator<T>(hidden),
                     t.gradient_accumulator<T>(hidden_bias), t.gradient_accumulator<T>(output),
                     t.gradient_accumulator<T>(output_bias));
    });
  });
}

}  // namespace ropewalk
