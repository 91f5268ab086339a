#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/parameter.h"
#include "framework/tensor.h"
#include "optim/config.h"

namespace ropewalk {

/// Squared L2 norms that a step leaves behind, one element a parameter: of the new values, and of the update, which is
/// the new value minus the old one with decay, rounding and projection in it.
struct UpdateNorms {
  UpdateNorms() = default;
  explicit UpdateNorms(std::size_t parameters) : values(parameters), updates(parameters) {}
  std::vector<double> values;
  std::vector<double> updates;
};

/// AdamW (Loshchilov & Hutter 2019): with g the clipped gradient of step s,
///   m = beta1 m + (1 - beta1) g           v = beta2 v + (1 - beta2) g^2
///   p = (1 - lr weight_decay) p - lr (m / (1 - beta1^s)) / (sqrt(v / (1 - beta2^s)) + eps)
/// Decay touches parameters of Role::weight only; those of Role::positive are then set to their floor where they fell
/// below it. Moments smaller than the least normal number become zero: they change no value, and a row whose gradient
/// stays zero would otherwise slow every later step with subnormal arithmetic.
class AdamW {
 public:
  /// Shares the memory of the values. Throws unless the set is allocated and betas and eps are usable in its dtype.
  AdamW(const ParameterSet& parameters, const OptimConfig& config);

  /// One step, counting from 1, in one pass over the memory; allocates nothing. `gradient` is a flat buffer of the
  /// set's layout and is multiplied by `clip` on the way in. `norms`, where given, has one element a parameter; whether
  /// it is given changes no bit of the values. NaN in a gradient reaches the values. Throws, having changed nothing, if
  /// a size or dtype differs or step < 1.
  ///
  /// `frozen_steps`, where given, has one element a parameter: so many first steps leave it, its moments included, as
  /// it is, and its own steps count from the one after.
  void step(const Tensor& gradient, double clip, double lr, int64_t step, UpdateNorms* norms = nullptr,
            std::span<const int64_t> frozen_steps = {});

  /// m and v, flat buffers of the set's layout; a checkpoint reads and writes them.
  const Tensor& first_moment() const { return first_moment_; }
  const Tensor& second_moment() const { return second_moment_; }

 private:
  struct Segment {
    int64_t offset;
    int64_t elements;
    bool decays;
    double floor;
  };

  std::vector<Segment> segments_;
  Tensor values_;
  Tensor first_moment_;
  Tensor second_moment_;
  double beta1_;
  double beta2_;
  double eps_;
  double weight_decay_;
};

}  // namespace ropewalk
