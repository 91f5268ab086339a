#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// log sum exp of one row of n logits.
template <class T>
double log_sum_exp(const T* x, int64_t n);

/// row = scale (softmax(x) - onehot(target)), or += it, from the row's log-sum-exp; row may be x where it is stored.
template <class T>
void softmax_minus_onehot(const T* x, int64_t n, double log_sum, int32_t target, double scale, bool accumulate, T* row);

/// Throws unless each of the rows of logits [.., V] has a target in [0, V) or none (-1), and the normalizer is
/// positive.
void check_cross_entropy(std::string_view op, int64_t rows, int64_t vocab, const int32_t* targets, double normalizer);

}  // namespace ropewalk
