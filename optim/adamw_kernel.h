#pragma once

#include <cstdint>

namespace ropewalk {

/// The numbers of one AdamW step that all elements of a parameter share.
struct AdamWCoefficients {
  double clip = 1;  ///< the gradient's factor
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double step_size = 0;           ///< lr / (1 - beta1^step)
  double second_moment_root = 1;  ///< 1 / sqrt(1 - beta2^step)
  double decay = 0;               ///< lr weight_decay, or 0 where nothing decays
  double floor = 0;               ///< least value allowed; -infinity where any is
};

/// The arrays of one parameter, n elements each.
template <class T>
struct AdamWArrays {
  int64_t n = 0;
  const T* gradient = nullptr;
  T* value = nullptr;
  T* first_moment = nullptr;
  T* second_moment = nullptr;
};

/// Squared L2 norms of one parameter: its new value, and the new value minus the old.
struct AdamWSquares {
  double value = 0;
  double update = 0;
};

}  // namespace ropewalk
