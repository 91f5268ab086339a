#pragma once

#include <cstdint>

namespace ropewalk {

enum class Schedule : uint8_t { constant, cosine, linear, inverse_sqrt };

/// [optim]: AdamW, clipping, the learning-rate schedule and the smoothing of the labels.
struct OptimConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double grad_clip = 1.0;  ///< greatest global gradient norm; 0: no clipping
  int64_t warmup_steps = 100;
  Schedule schedule = Schedule::cosine;
  double min_lr = -1.0;          ///< negative: lr / 10
  double label_smoothing = 0.0;  ///< of the training loss alone, see cross_entropy()
};

}  // namespace ropewalk
