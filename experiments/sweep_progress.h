#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run_result.h"

namespace ropewalk {

/// What the progress lines of a run say last: "step 120/400 ... loss 1.98".
struct RunProgress {
  double share = 0;  ///< of its steps, 0 to 1
  std::string text;  ///< "120/400 loss 1.98"; "" if nothing is known
};
RunProgress read_progress(const std::string& output);

/// Tells on standard error how a sweep gets on: a line that is redrawn on a terminal; elsewhere a line now and then.
class SweepProgress {
 public:
  SweepProgress();
  void begin(const std::string& name, std::size_t runs, std::size_t to_do, const std::string& directory);
  /// `running`: (id, file with its progress lines).
  void show(const std::vector<std::pair<std::string, std::string>>& running, std::size_t waiting);
  /// A line of its own for a run whose process ended: "[7/16] t5-s2 finished, ..." with the number of those that are
  /// done. One that was interrupted is not, and does not count.
  void ended(const RunResult& run);
  void say(const std::string& line);
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  std::size_t runs_ = 0;
  std::size_t to_do_ = 0;
  std::size_t ended_ = 0;
  std::size_t failed_ = 0;
  Clock::time_point begun_, shown_;
};

}  // namespace ropewalk
