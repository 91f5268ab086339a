#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <hwy/targets.h>

#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {

/// Calls f once for each instruction set that both this build and this processor have, with the kernels held to it.
template <class F>
void for_each_instruction_set(F&& f) {
  const int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  for (int bit = 0; bit < 62; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((target & supported & HWY_TARGETS) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    f(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

/// Greatest error of one run against another: value against value, gradients against gradients taken together.
inline double run_error(const Gradients& a, const Gradients& b) {
  double worst = 0;
  double largest = 0;
  for (std::size_t k = 0; k < b.inputs.size(); ++k) {
    for (int64_t i = 0; i < b.inputs[k].elements(); ++i) {
      const double difference = std::abs(a.inputs[k].at(i) - b.inputs[k].at(i));
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      largest = std::max(largest, std::abs(b.inputs[k].at(i)));
    }
  }
  return std::max(relative_error(a.value, b.value), largest > 0 ? worst / largest : worst);
}

/// Greatest difference between the instruction sets in the value and the gradients of f.
inline double spread_over_instruction_sets(const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Gradients> runs;
  for_each_instruction_set([&](int64_t) { runs.push_back(run(f, inputs)); });
  double worst = runs.empty() ? INFINITY : 0;
  for (const Gradients& other : runs) worst = std::max(worst, run_error(other, runs.back()));
  return worst;
}

/// Greatest error of f and its gradients in f32 against the same in f64, from the same (f32) inputs.
inline double single_precision_error(const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> narrow;
  std::vector<Tensor> wide;
  for (const Tensor& input : inputs) {
    narrow.push_back(cast(input, DType::f32));
    wide.push_back(cast(narrow.back(), DType::f64));
  }
  return run_error(run(f, narrow), run(f, wide));
}

/// Holds an op to everything that is asked of each: gradients against differences, f32 against f64, and the same result
/// but for rounding on each instruction set. The inputs are f64.
inline void check_op(const Function& f, const std::vector<Tensor>& inputs, double gradient_bound = 2e-9,
                     double single_bound = 2e-6) {
  EXPECT_LT(gradient_error(f, inputs), gradient_bound);
  EXPECT_LT(single_precision_error(f, inputs), single_bound);
  EXPECT_LT(spread_over_instruction_sets(f, inputs), 1e-13);
  std::vector<Tensor> narrow;
  for (const Tensor& input : inputs) narrow.push_back(cast(input, DType::f32));
  EXPECT_LT(spread_over_instruction_sets(f, narrow), single_bound);
}

}  // namespace ropewalk::testing
