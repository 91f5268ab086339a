#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// log sum exp of one row of n logits.
template <class T>
double log_sum_exp(const T* x, int64_t n);

/// Mean over the row of log softmax(x), from the row's log-sum-exp.
template <class T>
double mean_log_softmax(const T* x, int64_t n, double log_sum);

/// Cross-entropy of one row against (1 - label_smoothing) onehot(target) + label_smoothing / n, from its log-sum-exp.
template <class T>
double row_cross_entropy(const T* x, int64_t n, double log_sum, int32_t target, double label_smoothing) {
  const double loss = log_sum - static_cast<double>(x[target]);
  if (label_smoothing == 0) return loss;
  return (1 - label_smoothing) * loss - label_smoothing * mean_log_softmax(x, n, log_sum);
}

/// The gradient of row_cross_entropy times scale, row = scale (softmax(x) - (1 - label_smoothing) onehot(target) -
/// label_smoothing / n), or += it; row may be x where it is stored.
template <class T>
void softmax_minus_target(const T* x, int64_t n, double log_sum, int32_t target, double label_smoothing, double scale,
                          bool accumulate, T* row);

/// Throws unless each of the rows of logits [.., V] has a target in [0, V) or none (-1), the normalizer is positive,
/// and the label smoothing lies in [0, 1).
void check_cross_entropy(std::string_view op, int64_t rows, int64_t vocab, const int32_t* targets, double normalizer,
                         double label_smoothing = 0.0);

}  // namespace ropewalk
