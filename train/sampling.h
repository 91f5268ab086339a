#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor.h"

namespace ropewalk {

/// How the next token is chosen from its logits. The rules act in this order, each on what the one before has left:
/// 1. temperature T > 0: the logits are divided by it. T = 0: the greatest logit wins, of equal ones the lowest id, and
///    the other rules do not matter.
/// 2. top_k > 0: the k greatest logits stay; of equal ones at the edge the lowest ids, so that never more than k do.
/// 3. top_p < 1 (nucleus, Holtzman et al. 2020): in falling order of probability (equal ones: lower ids first) the
///    fewest tokens stay whose probabilities, taken among what top_k left, reach p; at least one.
/// A token is then drawn from what stays, with one random number.
struct Sampling {
  double temperature = 1.0;  ///< at least 0
  int64_t top_k = 0;         ///< 0: all
  double top_p = 1.0;        ///< in [0, 1]; 1: all
  uint64_t seed = 1;
};

/// Chooses tokens by these rules. The random number is a pure function of (seed, sequence, position): what a sequence
/// becomes does not depend on which others are generated beside it.
class Sampler {
 public:
  /// Throws Error for values outside their ranges.
  explicit Sampler(const Sampling& sampling);

  /// The token that follows `position` tokens of sequence number `sequence`, from row `row` of logits [.., vocabulary].
  /// Throws Error where a logit is NaN or infinite.
  int32_t choose(const Tensor& logits, int64_t row, int64_t sequence, int64_t position);

 private:
  void keep_likely();

  Sampling sampling_;
  std::vector<double> weights_;  ///< [vocabulary]: logits, then probabilities but for a factor; 0: does not stay
  std::vector<double> logits_;
  std::vector<int32_t> order_;
};

}  // namespace ropewalk
