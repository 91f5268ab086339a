#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/error.h"

namespace ropewalk {

double learning_rate(const OptimConfig& config, int64_t step, int64_t total_steps) {
  require(step >= 1, "learning rate of step {}: steps count from 1", step);
  const double lr = config.lr;
  const int64_t warmup = config.warmup_steps;
  const auto s = static_cast<double>(step);
  if (step <= warmup) return lr * s / static_cast<double>(warmup);
  const double least = config.min_lr < 0 ? lr / 10 : config.min_lr;
  const auto steps_to_fall = static_cast<double>(std::max<int64_t>(1, total_steps - warmup));
  const double progress = std::min(1.0, (s - static_cast<double>(warmup)) / steps_to_fall);
  switch (config.schedule) {
    case Schedule::constant:
      return lr;
    case Schedule::inverse_sqrt:
      return std::max(least, lr * std::sqrt(static_cast<double>(std::max<int64_t>(warmup, 1)) / s));
    case Schedule::linear:
      return least + (lr - least) * (1 - progress);
    case Schedule::cosine:
      return least + (lr - least) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  fail("optim.schedule has the unknown value {}", static_cast<int>(config.schedule));
}

}  // namespace ropewalk
