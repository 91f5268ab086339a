#pragma once

#include <array>
#include <cstdint>

#include "framework/tensor.h"
#include "framework/threads.h"

namespace ropewalk {

/// FLOP/s of fused multiply-adds of whole vectors on registers alone, two operations each, on the calling thread: what
/// no kernel can exceed. The best of several runs that last `seconds` together.
double measure_fma_peak(DType dtype, double seconds);

/// The same on all workers at once, their rates added.
double measure_fma_peak(DType dtype, double seconds, Workers& workers);

/// One level of the memory hierarchy.
struct MemoryLevel {
  const char* name = "";
  int64_t capacity = 0;    ///< bytes that fit in it; as the system tells, or a usual value where it does not
  int64_t measured = 0;    ///< bytes that were read again and again
  double bytes_per_s = 0;  ///< read by one thread
};

/// What one thread can read from each level, and so a bound on everything that moves bytes.
struct MemoryRoof {
  std::array<MemoryLevel, 4> levels;  ///< L1, L2, L3, DRAM

  /// The level that holds `working_set` bytes.
  const MemoryLevel& level_of(double working_set) const;
};

/// Reads 16 KiB, 256 KiB, 8 MiB and 128 MiB over and over, `seconds` each, and keeps the best rates.
MemoryRoof measure_memory_roof(double seconds);

}  // namespace ropewalk
