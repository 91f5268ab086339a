#include "experiments/sweep_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "experiments/comparison.h"
#include "experiments/terminal.h"
#include "experiments/text_file.h"
#include "framework/message.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::chrono::milliseconds kRedrawEvery{400};
constexpr std::chrono::seconds kLineEvery{30};

/// Reads "step 120/400  loss 1.9835 ..."; nothing for any other line.
std::optional<RunProgress> parse_progress(std::string_view line) {
  long long step = 0;
  long long steps = 0;
  double loss = 0;
  const std::string text(line);
  const int found = std::sscanf(text.c_str(), "step %lld/%lld loss %lf", &step, &steps, &loss);
  if (found < 2 || step < 0 || steps < 1 || step > steps) return std::nullopt;
  RunProgress out{static_cast<double>(step) / static_cast<double>(steps), fmt::format("{}/{}", step, steps)};
  if (found == 3) out.text += fmt::format(" loss {:.3f}", loss);
  return out;
}

std::string losses_text(const RunResult& run) {
  if (run.loss.empty()) return "";
  const double unit = static_cast<double>(run.train_length > 0 ? run.train_length : run.lengths.front());
  std::string out = ", loss";
  for (const std::size_t i : {std::size_t{0}, run.loss.size() - 1}) {
    if (i > 0 || run.loss.size() == 1) out += out.ends_with("loss") ? "" : ",";
    const std::string value = std::isfinite(run.loss[i]) ? fmt::format("{:.3f}", run.loss[i]) : "-";
    out += fmt::format(" {} at {}", value, multiple_text(static_cast<double>(run.lengths[i]) / unit));
    if (run.loss.size() == 1) break;
  }
  return out;
}

}  // namespace

RunProgress read_progress(const std::string& output) {
  const std::string text = tail_of(output, 2048);
  RunProgress last;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (const std::optional<RunProgress> progress = parse_progress(trimmed(rest.substr(0, end)))) last = *progress;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return last;
}

SweepProgress::SweepProgress() : terminal_(isatty(STDERR_FILENO) == 1), begun_(Clock::now()), shown_(begun_) {}

void SweepProgress::begin(const std::string& name, std::size_t runs, std::size_t to_do, const std::string& directory) {
  runs_ = runs;
  to_do_ = to_do;
  begun_ = shown_ = Clock::now();
  say(fmt::format("sweep {} in {}: {}{}", name, directory, counted(runs, "run"),
                  to_do == runs ? "" : fmt::format(", {} done before", runs - to_do)));
}

void SweepProgress::show(const std::vector<std::pair<std::string, std::string>>& running, std::size_t waiting) {
  const auto now = Clock::now();
  if (now - shown_ < (terminal_ ? Clock::duration(kRedrawEvery) : Clock::duration(kLineEvery))) return;
  shown_ = now;
  double done = static_cast<double>(ended_);
  std::string details;
  for (const auto& [id, output] : running) {
    const RunProgress progress = read_progress(output);
    done += progress.share;
    details +=
        fmt::format("{}{}{}{}", details.empty() ? "" : ", ", id, progress.text.empty() ? "" : " ", progress.text);
  }
  const double elapsed = std::chrono::duration<double>(now - begun_).count();
  const double rest = static_cast<double>(running.size() + waiting + ended_) - done;
  const std::string left = done > 0.02 ? duration_text(elapsed * rest / done) + " left" : "";
  std::string line =
      fmt::format("{}/{} done{}{}{} | {}", runs_ - to_do_ + ended_, runs_,
                  failed_ > 0 ? fmt::format(", {} failed", failed_) : "", left.empty() ? "" : ", ", left, details);
  if (!terminal_) {
    message("{}\n", line);
    return;
  }
  const auto width = std::max<std::size_t>(20, terminal_size(STDERR_FILENO).columns - 1);
  message("\r{}\x1b[K", first_columns(line, width));
  std::fflush(stderr);
}

void SweepProgress::ended(const RunResult& run) {
  if (run.status != "finished" && run.status != "diverged" && run.status != "failed") {
    say(fmt::format("[{}/{} done] {} {}; the same command goes on with it", runs_ - to_do_ + ended_, runs_, run.id,
                    run.status));
    return;
  }
  ++ended_;
  if (run.status == "failed") ++failed_;
  std::string line = fmt::format("[{}/{}] {} {}", runs_ - to_do_ + ended_, runs_, run.id, run.status);
  if (run.counts()) line += losses_text(run) + ", " + duration_text(run.wall_time);
  if (!run.divergence.empty()) line += " at " + divergence_text(run.divergence.front());
  if (!run.reason.empty()) line += ": " + run.reason;
  say(line);
}

void SweepProgress::say(const std::string& line) {
  message("{}{}\n", terminal_ ? "\r\x1b[K" : "", line);
  std::fflush(stderr);
}

void SweepProgress::end() {
  if (terminal_) message("\r\x1b[K");
}

}  // namespace ropewalk
