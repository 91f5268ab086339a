#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// cross_entropy(linear(hidden, weight), targets, normalizer, label_smoothing) as one op, for hidden [.., D] and weight
/// [V, D]: a slice of the rows at a time, so that the logits [.., V] are never stored whole. A scalar.
///
/// Where a gradient is wanted the forward pass makes those of a slice while its logits are in the cache, for a
/// cotangent of 1; they take the memory of hidden and weight. Backward, with dlogits as cross_entropy has them:
///   dhidden += dloss dlogits W        dW += dloss dlogits^T hidden
Var linear_cross_entropy(Var hidden, Var weight, const int32_t* targets, double normalizer,
                         double label_smoothing = 0.0);

/// The loss in nats of each row, never smoothed, 0 where the target is -1, and in `predicted` (unless null) the
/// greatest column of its logits, the first of equal ones: token_losses() and argmax_rows() by slices. Scratch memory
/// comes from `arena` and goes back to it. Records nothing.
void linear_token_losses(const Tensor& hidden, const Tensor& weight, const int32_t* targets, Arena& arena,
                         float* losses, int32_t* predicted);

}  // namespace ropewalk
