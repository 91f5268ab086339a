#include "experiments/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "experiments/blow_up.h"
#include "experiments/comparison.h"
#include "experiments/run_paths.h"
#include "experiments/run_result.h"
#include "experiments/sweep_progress.h"
#include "experiments/text_plot.h"
#include "train/config_error.h"
#include "train/config_resolve.h"
#include "train/read_log.h"
#include "train/run_directory.h"
#include "train/text.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

/// "[=====>    ]"
std::string bar(double share, std::size_t width, bool unicode) {
  const std::size_t inside = width - 2;
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(inside));
  std::string out = "[";
  for (std::size_t i = 0; i < inside; ++i) out += i < full ? (unicode ? "━" : "=") : " ";
  return out + "]";
}

/// The steps that a run is to make, by the configuration in its log; 0 if another version wrote that.
int64_t steps_of(const LogContents& log) {
  try {
    return parse_config_text(log.header.config, log.path).train.steps;
  } catch (const ConfigError&) {
    return 0;
  }
}

std::string status_of(const LogContents& log, bool locked) {
  const LogStatus status = log.status.front();
  return status == LogStatus::running && !locked ? "killed" : to_string(status);
}

TextLine line_of(const TrainTable& train, const std::vector<float>& column) {
  TextLine out;
  for (std::size_t i = 0; i < train.step.size(); ++i) {
    out.x.push_back(static_cast<double>(train.step[i]));
    out.y.push_back(static_cast<double>(column[i]));
  }
  return out;
}

std::string evaluation_text(const LogContents& log) {
  const EvalTable& eval = log.tables.eval;
  if (eval.step.empty()) return "";
  std::string out = fmt::format("held-out loss at step {}:", eval.step.back());
  const std::size_t n = log.schema.eval_lengths.size();
  for (std::size_t i = 0; i < n; ++i) {
    const float loss = eval.loss[(eval.step.size() - 1) * n + i];
    out += fmt::format(" {} {}", log.schema.eval_lengths[i], std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "-");
  }
  return out;
}

/// A row of figures about the last step.
std::string figures(const TrainTable& train) {
  return fmt::format("loss {:.4f}  lr {:.2e}  grad norm {:.3g}  {:.0f} tokens/s", unsigned_nan(train.loss.back()),
                     train.lr.back(), unsigned_nan(train.grad_norm.back()), train.tokens_per_s.back());
}

WatchFrame frame_of_run(const std::string& directory, std::size_t width, std::size_t rows, const TextStyle& style) {
  std::error_code ignored;
  const bool locked = run_is_locked(directory);
  if (!fs::exists(RunPaths{directory}.log(), ignored)) {
    if (!fs::exists(RunPaths{directory}.config(), ignored) && !locked) {
      throw LogError(fmt::format("'{}' holds neither a run nor a sweep", printable(directory)));
    }
    return {.text = "the log has not begun\n", .line = "the log has not begun", .over = !locked};
  }
  LogContents log = read_log_outline(RunPaths{directory}.log(), LogDamage::left_out);
  const TrainTable& train = log.tables.train;
  WatchFrame out;
  const std::string status = status_of(log, locked);
  out.over = !locked;
  std::string text =
      style.bold(first_columns(fmt::format("{}: {}", printable(run_id_of(directory)), status), width)) + "\n";
  out.line = status;
  if (train.step.empty()) {
    out.text = text + "no step has been logged\n";
    return out;
  }
  const int64_t steps = std::max(steps_of(log), train.step.back());
  const double share = static_cast<double>(train.step.back()) / static_cast<double>(std::max<int64_t>(steps, 1));
  const double begun = train.wall_time.back();
  const std::string left = locked && share > 0 ? ", " + duration_text(begun / share - begun) + " left" : "";
  const std::string count = fmt::format("step {}/{}", train.step.back(), steps);
  text += first_columns(fmt::format("{} {} {}{}", bar(share, 24, style.unicode), count, duration_text(begun), left),
                        width) +
          "\n";
  text += first_columns(figures(train), width) + "\n";
  out.line += fmt::format("  {}  {}{}", count, figures(train), left);
  const std::string evaluation = evaluation_text(log);
  if (!evaluation.empty()) text += first_columns(evaluation, width) + "\n";
  const std::optional<BlowUp> blow_up = first_blow_up(log, [&](std::size_t first, std::size_t count) {
    return read_log_rows(log, "layers", "grad_norm", first, count);
  });
  if (blow_up) text += style.red(first_columns(blow_up_text(*blow_up), width)) + "\n";

  // Two plots and their titles, labels and axes share what rows are left.
  const std::size_t above = 3 + (evaluation.empty() ? 0 : 1) + (blow_up ? 1 : 0);
  const std::size_t around = 4;
  if (rows > above + 2 * (around + 3) && width > 30) {
    const std::size_t each = std::min<std::size_t>((rows - above) / 2 - around, 14);
    const TextPlot loss{.title = "training loss, nats a token",
                        .x_label = "step",
                        .y_label = "loss",
                        .lines = {line_of(train, train.loss)}};
    const TextPlot norm{.title = "gradient norm before clipping (log10)",
                        .x_label = "step",
                        .y_label = "grad_norm",
                        .lines = {line_of(train, train.grad_norm)},
                        .log10_y = true};
    text += text_plot(loss, width, each, style) + text_plot(norm, width, each, style);
  }
  out.text = text;
  return out;
}

WatchFrame frame_of_sweep(const std::string& directory, std::size_t width, std::size_t rows, const TextStyle& style) {
  const SweepResults sweep = read_sweep_results(directory);
  const SweepPaths paths{directory};
  std::vector<std::string> counts;
  double done = 0;
  for (const char* status : {"finished", "diverged", "failed", "running", "interrupted", "killed", "waiting"}) {
    const auto count =
        std::count_if(sweep.runs.begin(), sweep.runs.end(), [&](const RunResult& run) { return run.status == status; });
    if (count > 0) counts.push_back(fmt::format("{} {}", count, status));
  }
  std::vector<std::string> lines;
  for (const RunResult& run : sweep.runs) {
    const bool ended = run.status == "finished" || run.status == "diverged" || run.status == "failed";
    if (ended) done += 1;
    if (run.status == "running") {
      const RunProgress progress = read_progress(paths.output(run.id));
      done += progress.share;
      lines.push_back(fmt::format("{} {} {}", bar(progress.share, 24, style.unicode), run.id, progress.text));
    }
  }
  const double share = done / static_cast<double>(std::max<std::size_t>(sweep.runs.size(), 1));
  WatchFrame out;
  out.over = !run_is_locked(directory);
  out.line = fmt::format("{} of {}: {}", printable(sweep.name), counted(sweep.runs.size(), "run"), joined(counts));
  std::string text = style.bold(first_columns(out.line, width)) + "\n";
  text +=
      first_columns(fmt::format("{} {:.0f} % of the sweep", bar(share, 24, style.unicode), 100 * share), width) + "\n";
  for (const std::string& line : lines) text += first_columns(line, width) + "\n";
  if (out.over && !counts.empty() && share < 1) {
    text += first_columns("nothing works on it now; 'ropewalk sweep' with its file goes on with it", width) + "\n";
  }
  // The comparison so far, as far as there is room.
  const std::string comparison = comparison_text(compare(sweep.runs), style);
  std::size_t used = 3 + lines.size();
  for (std::size_t begin = 0; begin < comparison.size() && used + 1 < rows; ++used) {
    const std::size_t end = std::min(comparison.find('\n', begin), comparison.size());
    const std::string line = comparison.substr(begin, end - begin);
    text += (style.colour ? line : first_columns(line, width)) + "\n";
    begin = end + 1;
  }
  out.text = text;
  return out;
}

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

WatchFrame watch_frame(const std::string& directory, std::size_t width, std::size_t rows, const TextStyle& style) {
  return is_sweep_directory(directory) ? frame_of_sweep(directory, width, rows, style)
                                       : frame_of_run(directory, width, rows, style);
}

void watch(const std::string& directory, double every) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const TextStyle style = style_of(STDOUT_FILENO);
  std::string shown;
  std::ptrdiff_t drawn = 0;
  while (true) {
    const TerminalSize size = terminal_size(STDOUT_FILENO);
    const WatchFrame frame = watch_frame(directory, size.columns, size.rows - 1, style);
    if (terminal) {
      const std::string back = drawn > 0 ? fmt::format("\x1b[{}F\x1b[J", drawn) : "";
      show(back + frame.text);
      drawn = std::count(frame.text.begin(), frame.text.end(), '\n');
    } else if (frame.line != shown) {
      show(frame.line + "\n");
      shown = frame.line;
    }
    if (frame.over) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(every));
  }
}

}  // namespace ropewalk
