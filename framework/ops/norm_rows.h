#pragma once

#include <cstdint>

namespace ropewalk {

/// What the kernels of layer_norm and rms_norm share between forward and backward.
template <class T>
struct NormRows {
  int64_t rows = 0;
  int64_t n = 0;                 ///< elements of a row
  const T* x = nullptr;          ///< [rows, n]
  const T* weight = nullptr;     ///< [n]
  const T* bias = nullptr;       ///< [n], or null
  T* mean = nullptr;             ///< [rows]; null for RMSNorm, which takes no mean away
  T* reciprocal_root = nullptr;  ///< [rows]: 1 / sqrt(variance + eps)
};

}  // namespace ropewalk
