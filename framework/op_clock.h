#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ropewalk {

/// A stopwatch that never stands still: each lap gives the time since the last lap to an op, so that nothing between
/// two laps goes uncounted. A tape that carries one laps after each op, forward and backward. Fixed in size: it
/// allocates nothing. For one thread.
class OpClock {
 public:
  enum class Pass : uint8_t { forward, backward, step };  ///< step: work of a training step on no tape

  struct Row {
    const char* op = "";
    int64_t laps = 0;                    ///< forward, or of the step
    std::array<double, 3> seconds = {};  ///< by Pass

    double of(Pass pass) const { return seconds[static_cast<std::size_t>(pass)]; }
    double total() const { return seconds[0] + seconds[1] + seconds[2]; }
  };

  /// What passed until now goes to no op.
  void start() { last_ = Time::now(); }
  /// What passed since the last lap or start() goes to `op`, whose text outlives the clock. Throws Error beyond 64 ops.
  void lap(const char* op, Pass pass);
  /// Forgets all rows.
  void clear() { used_ = 0; }

  /// In the order of their first laps.
  std::span<const Row> rows() const { return {rows_.data(), used_}; }

 private:
  using Time = std::chrono::steady_clock;
  std::array<Row, 64> rows_;
  std::size_t used_ = 0;
  Time::time_point last_ = Time::now();
};

}  // namespace ropewalk
