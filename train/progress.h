#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ropewalk {

/// One line about a run on stderr: redrawn in place on a terminal, else a plain line every ten seconds.
class Progress {
 public:
  Progress(int64_t first_step, int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t step, double loss, double lr, double grad_norm, double tokens_per_s);
  /// A whole line that stays.
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t first_step_;
  int64_t steps_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = {};
};

/// "3:07" or "1:02:15".
std::string clock_text(double seconds);

}  // namespace ropewalk
