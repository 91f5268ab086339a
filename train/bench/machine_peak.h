#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "framework/tensor.h"
#include "framework/threads.h"

namespace ropewalk {

/// FLOP/s of fused multiply-adds of whole vectors on registers alone, two operations each, on the calling thread: what
/// no kernel can exceed. The best of bursts of a tenth of a millisecond or so, short enough that one of them is not
/// interrupted on a machine that others use too; they go on for `seconds`.
double measure_fma_peak(DType dtype, double seconds);

/// The same on several workers at once, their rates added: on fma_threads(workers.count()) of them.
double measure_fma_peak(DType dtype, double seconds, Workers& workers);

/// How many of so many threads add to a peak: one a core that this process may use, at most. More threads share them.
int64_t fma_threads(int64_t threads);

/// A share of a roof beyond this is no share: the roof was measured too low, or is not that of what was compared.
inline constexpr double kMostCredibleShare = 1.05;
inline bool credible_share(double share) {
  return share <= kMostCredibleShare;
}
/// What stands behind such a share in a table: "?", else a blank.
inline char share_mark(double share) {
  return credible_share(share) ? ' ' : '?';
}
inline constexpr const char* kShareRule =
    "?: more than 105 % of the roof, so not to be relied on: the machine was busy while the roof was measured, or the\n"
    "   bytes came from a faster level than they are counted for\n";

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

  /// Raises each level to the one below it where that was read faster: what a cache holds is at least as near.
  void raise_to_levels_below();
};

/// Measures how fast one thread reads each level of the memory: 16 KiB, 256 KiB and 8 MiB over and over, and parts of
/// 128 MiB that were thrown out of all caches, in bursts of some tenths of a millisecond (see measure_fma_peak).
/// Measuring again never lowers a rate, so that it can be done between the measurements that are compared with it.
class MemoryProbe {
 public:
  MemoryProbe();

  /// Reads every level for so long, and at least a few bursts.
  void measure(double seconds_a_level);
  /// The best rates so far, each level at least as fast as the one below it.
  MemoryRoof roof() const;

 private:
  struct Release {
    void operator()(float* memory) const;
  };
  MemoryRoof best_;
  std::unique_ptr<float[], Release> memory_;
  int64_t window_ = 0;  ///< of DRAM, the next to be read
};

}  // namespace ropewalk
