#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// The target of a row that counts for nothing: padding, prompts.
inline constexpr int32_t kIgnoredTarget = -1;

/// Cross-entropy in nats of logits [N, V] (leading axes are taken together) against N targets, divided by `normalizer`:
///   loss = sum over rows with a target of ((1 - e) NLL + e mean over V of -log p) / normalizer
/// with p = softmax(logits), NLL = -log p[target] and e = label_smoothing in [0, 1): the label is smoothed by the
/// uniform distribution (Szegedy et al. 2016, section 7). A scalar (shape []) that is summed in double. The normalizer
/// is the number of targets of the whole step where a step is cut into parts; it must be positive. Rows whose target is
/// -1 count for nothing. Any other target outside [0, V) is an Error that names it and its row. The targets are copied.
///
/// Backward: dlogits += dloss (p - (1 - e) onehot(target) - e / V) / normalizer, and 0 in rows without target.
Var cross_entropy(Var logits, const int32_t* targets, double normalizer, double label_smoothing = 0.0);

/// The loss in nats of each row of logits [.., V], never smoothed, 0 where the target is -1. Records nothing.
void token_losses(const Tensor& logits, const int32_t* targets, float* losses);

/// Column of the greatest element of each row, the first of equal ones. Records nothing. NaN never wins; a row of
/// nothing else gives 0.
void argmax_rows(const Tensor& logits, int32_t* columns);

}  // namespace ropewalk
