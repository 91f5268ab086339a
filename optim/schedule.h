#pragma once

#include <cstdint>

#include "optim/config.h"

namespace ropewalk {

/// Learning rate of a step, which counts from 1, in a run of `total_steps`. It rises linearly to lr at step ==
/// warmup_steps and then follows the schedule: `linear` and `cosine` fall to min_lr at total_steps and stay there,
/// `inverse_sqrt` is lr sqrt(max(warmup_steps, 1) / step), never below min_lr (Vaswani et al. 2017), `constant` stays
/// at lr. A negative min_lr stands for lr / 10. Throws for a step below 1.
double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps);

}  // namespace ropewalk
