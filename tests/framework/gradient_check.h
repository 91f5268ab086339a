#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "framework/random.h"
#include "framework/tape.h"

namespace ropewalk::testing {

/// A tensor of N(0, scale^2) values, different for every salt.
inline Tensor random_tensor(const Shape& shape, DType dtype, uint32_t salt, double scale = 1.0, double shift = 0.0) {
  Tensor out = Tensor::zeros(shape, dtype);
  for (int64_t i = 0; i < out.elements(); ++i) {
    out.set(i, shift + scale * random_normal({.seed = 7, .a = salt}, static_cast<uint64_t>(i)));
  }
  return out;
}

inline Tensor cast(const Tensor& x, DType dtype) {
  Tensor out = Tensor::zeros(x.shape, dtype);
  for (int64_t i = 0; i < x.elements(); ++i) out.set(i, x.at(i));
  return out;
}

inline Tensor copy(const Tensor& x) {
  return cast(x, x.dtype);
}

/// An op under test: builds its result from leaves of the given values.
using Function = std::function<Var(Tape&, const std::vector<Var>&)>;

/// Greatest |a - b| over the greatest |b|.
inline double relative_error(const Tensor& a, const Tensor& b) {
  double worst = 0;
  double largest = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double difference = std::abs(a.at(i) - b.at(i));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    largest = std::max(largest, std::abs(b.at(i)));
  }
  return largest > 0 ? worst / largest : worst;
}

struct Gradients {
  Tensor value;
  std::vector<Tensor> inputs;
};

/// Value and gradients of f under the cotangent given.
inline Gradients run(const Function& f, const std::vector<Tensor>& inputs, uint32_t cotangent_salt = 99) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  std::vector<Var> leaves;
  leaves.reserve(inputs.size());
  for (const Tensor& input : inputs) leaves.push_back(tape.leaf(input));
  const Var y = f(tape, leaves);
  Gradients out{.value = copy(y.value())};
  tape.seed(y, random_tensor(y.shape(), y.dtype(), cotangent_salt));
  tape.backward();
  for (const Var leaf : leaves) out.inputs.push_back(copy(tape.gradient_of(leaf)));
  return out;
}

/// <f(inputs), cotangent> in double.
inline double inner_product(const Function& f, const std::vector<Tensor>& inputs, uint32_t cotangent_salt = 99) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  std::vector<Var> leaves;
  leaves.reserve(inputs.size());
  for (const Tensor& input : inputs) leaves.push_back(tape.constant(input));
  const Var y = f(tape, leaves);
  const Tensor cotangent = random_tensor(y.shape(), y.dtype(), cotangent_salt);
  double sum = 0;
  for (int64_t i = 0; i < cotangent.elements(); ++i) sum += y.value().at(i) * cotangent.at(i);
  return sum;
}

/// Largest error of the gradients of f (double inputs) against central differences of <f, random cotangent>, over the
/// largest true gradient of all inputs. Sixth-order differences with step h, so about 1e-9 where f is smooth.
inline double gradient_error(const Function& f, const std::vector<Tensor>& inputs, double h = 1e-3) {
  const Gradients analytic = run(f, inputs);
  double worst = 0;
  double largest = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    std::vector<Tensor> moved = inputs;
    moved[k] = copy(inputs[k]);
    for (int64_t i = 0; i < inputs[k].elements(); ++i) {
      const double x = inputs[k].at(i);
      const auto at = [&](double offset) {
        moved[k].set(i, x + offset);
        return inner_product(f, moved);
      };
      const double numeric =
          (45 * (at(h) - at(-h)) - 9 * (at(2 * h) - at(-2 * h)) + (at(3 * h) - at(-3 * h))) / (60 * h);
      moved[k].set(i, x);
      const double difference = std::abs(analytic.inputs[k].at(i) - numeric);
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      largest = std::max(largest, std::abs(numeric));
    }
  }
  return largest > 0 ? worst / largest : worst;
}

}  // namespace ropewalk::testing
