#include "train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "framework/message.h"
#include "train/text.h"

namespace ropewalk {

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(int64_t first_step, int64_t steps)
    : first_step_(first_step), steps_(steps), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

void Progress::update(int64_t step, double loss, double lr, double grad_norm, double tokens_per_s) {
  const Clock::time_point now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000);
  if (step != steps_ && last_ != Clock::time_point{} && now - last_ < pause) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(std::max<int64_t>(1, step - first_step_));
  const double left = elapsed / done * static_cast<double>(steps_ - step);
  const std::string line =
      fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  grad norm {:.3g}  {:.0f} tokens/s  {} left", step, steps_,
                  unsigned_nan(loss), lr, unsigned_nan(grad_norm), tokens_per_s, clock_text(left));
  if (terminal_) {
    message("\r{}\x1b[K", line);
    std::fflush(stderr);
    drawn_ = true;
  } else {
    message("{}\n", line);
  }
}

void Progress::say(const std::string& line) {
  if (drawn_) message("\r\x1b[K");
  drawn_ = false;
  message("{}\n", line);
}

}  // namespace ropewalk
