#include "experiments/log_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "experiments/blow_up.h"
#include "experiments/comparison.h"
#include "train/durable_file.h"
#include "train/events.h"
#include "train/run_directory.h"
#include "train/text.h"
#include "train/warnings.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 80;
constexpr std::size_t kCell = 9;

std::string line(const std::string& name, const std::string& value) {
  return value.empty() ? "" : fmt::format("{:<10}{}\n", name, printable(value));
}

/// "finished", or for several entries "18 finished, 2 failed".
std::string status_text(const LogContents& log, bool locked) {
  const auto text = [&](LogStatus status) {
    return status == LogStatus::running && !locked ? std::string("killed (no process writes it any more)")
                                                   : std::string(to_string(status));
  };
  if (log.status.size() == 1) return text(log.status.front());
  std::vector<std::string> parts;
  for (const LogStatus status :
       {LogStatus::running, LogStatus::finished, LogStatus::interrupted, LogStatus::diverged, LogStatus::failed}) {
    const auto count = std::count(log.status.begin(), log.status.end(), status);
    if (count > 0) parts.push_back(fmt::format("{} {}", count, text(status)));
  }
  return joined(parts);
}

std::string header_text(const LogContents& log, bool locked) {
  std::string out = line("run", log.header.run_id);
  out += line("schema", fmt::format("{} {}", kLogSchema, kLogSchemaVersion));
  out += line("status", status_text(log, locked));
  const std::vector<int64_t>& steps = log.tables.train.step;
  if (!steps.empty()) out += line("steps", fmt::format("{} ({} rows)", steps.back(), steps.size()));
  out += line("started", log.header.started) + line("host", log.header.host) + line("cpu", log.header.cpu);
  out += line("device", log.header.device) + line("version", log.header.version);
  return out + line("command", log.header.command_line);
}

std::string first_divergence(const std::string& events) {
  std::error_code error;
  if (events.empty() || !fs::is_regular_file(events, error)) return "";
  try {
    for (const nlohmann::json& event : read_events(events)) {
      if (event.value("kind", "") != "diverged") continue;
      const std::string where = event.value("where", "");
      return fmt::format("not finite first at step {} in {}{}\n", event.value("step", int64_t{0}),
                         printable(event.value("module", "?")), where.empty() ? "" : " (" + printable(where) + ")");
    }
  } catch (const std::system_error&) {
    return "";
  } catch (const nlohmann::json::exception&) {
    return "";  // a member of another type than ours: not an event of this program
  }
  return "";
}

std::string cell(double value, const char* format) {
  return padded_left(std::isfinite(value) ? fmt::format(fmt::runtime(format), value)
                     : std::isnan(value)  ? "-"
                                          : "inf",
                     kCell);
}

/// The last rows in the range.
std::string train_text(const TrainTable& train, const InspectOptions& options, const TextStyle& style) {
  const auto begin = static_cast<std::size_t>(
      std::lower_bound(train.step.begin(), train.step.end(), options.steps.first) - train.step.begin());
  const auto end = static_cast<std::size_t>(std::upper_bound(train.step.begin(), train.step.end(), options.steps.last) -
                                            train.step.begin());
  if (train.step.empty()) return "no training rows\n";
  const std::size_t count = end - std::min(begin, end);
  const std::size_t shown = std::min(count, static_cast<std::size_t>(std::max<int64_t>(options.rows, 0)));
  if (shown == 0) return "";
  std::string out = style.bold(fmt::format("training, last {} of {} rows", shown, count)) + "\n";
  out += style.faint(fmt::format("{:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>9}", "step", "loss", "lr", "grad_norm",
                                 "param_norm", "tokens/s", "time")) +
         "\n";
  for (std::size_t i = end - shown; i < end; ++i) {
    out += fmt::format("{:>9} {:>9.4f} {:>10.3e} {:>10.3e} {:>10.4g} {:>10.0f} {:>9}\n", train.step[i],
                       unsigned_nan(train.loss[i]), train.lr[i], unsigned_nan(train.grad_norm[i]),
                       unsigned_nan(train.param_norm[i]), train.tokens_per_s[i], duration_text(train.wall_time[i]));
  }
  return out;
}

std::string lengths_line(std::span<const float> row, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += cell(row[i], "{:.4f}");
  return out + "\n";
}

std::string eval_table(const LogContents& log, const char* name, const std::vector<float>& values, std::size_t begin,
                       std::size_t end, const TextStyle& style) {
  constexpr std::size_t kMostRows = 8;
  const EvalTable& eval = log.tables.eval;
  const std::size_t n = log.schema.eval_lengths.size();
  std::string head = padded_left(name, kCell);
  std::string multiples = padded_left("step", kCell);
  for (std::size_t i = begin; i < end; ++i) {
    head += padded_left(fmt::format("{}", log.schema.eval_lengths[i]), kCell);
    const double unit = static_cast<double>(std::max<int64_t>(log.schema.train_length, 1));
    multiples += padded_left(multiple_text(static_cast<double>(log.schema.eval_lengths[i]) / unit), kCell);
  }
  std::string out = style.faint(head) + "\n" + style.faint(multiples) + "\n";
  const std::size_t count = eval.step.size();
  for (std::size_t row = count - std::min(count, kMostRows); row < count; ++row) {
    out += padded_left(fmt::format("{}", eval.step[row]), kCell) +
           lengths_line(std::span(values).subspan(row * n, n), begin, end);
  }
  return out;
}

std::string eval_text(const LogContents& log, const TextStyle& style) {
  const EvalTable& eval = log.tables.eval;
  if (eval.step.empty()) return "";
  std::string out =
      style.bold(fmt::format("evaluation by length, protocol {}, trained at {}{}", printable(log.schema.eval_protocol),
                             log.schema.train_length, eval.step.size() > 8 ? "; last 8" : "")) +
      "\n";
  constexpr std::size_t kColumns = kWidth / kCell - 1;
  const std::size_t n = log.schema.eval_lengths.size();
  for (std::size_t begin = 0; begin < n; begin += kColumns) {
    const std::size_t end = std::min(n, begin + kColumns);
    out += eval_table(log, "loss", eval.loss, begin, end, style);
    if (!eval.accuracy.empty()) out += eval_table(log, "accuracy", eval.accuracy, begin, end, style);
    if (!eval.exact_match.empty()) out += eval_table(log, "exact", eval.exact_match, begin, end, style);
  }
  return out;
}

/// Kinds of an encoder_decoder's encoder begin with it.
constexpr std::string_view kEncoder = "encoder.";

/// A kind as the lines of a narrow heading: "attention.kv_latent_norm" is "attn", "kv", "latent", "norm".
std::vector<std::string> heading_lines(const std::string& kind) {
  constexpr std::string_view kCross = "cross_attention";
  std::string text = printable(kind);
  if (text.starts_with(kCross)) text.erase(kCross.find('_'), kCross.size() - kCross.find('_'));
  std::vector<std::string> out = {""};
  char separator = '.';
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("._", begin), text.size());
    std::string word = text.substr(begin, end - begin);
    if (word == "attention") word = "attn";
    word.resize(std::min(word.size(), kCell - 1));
    if (separator == '_' && out.back().size() + 1 + word.size() < kCell) {
      out.back() += "_" + word;
    } else if (out.back().empty()) {
      out.back() = word;
    } else {
      out.push_back(word);
    }
    if (end < text.size()) separator = text[end];
    begin = end + 1;
  }
  return out;
}

/// The row at the step asked for, or the last in the range.
std::size_t row_of_step(const std::vector<int64_t>& steps, const StepRange& range) {
  if (range.first != range.last) {
    std::size_t row = steps.size();
    while (row > 0 && !range.holds(steps[row - 1])) --row;
    if (row > 0) return row - 1;
    throw std::runtime_error(fmt::format("no layers were logged in the steps {}; they are from {} to {}", range.text(),
                                         steps.front(), steps.back()));
  }
  const int64_t wanted = range.first;
  const auto found = std::find(steps.begin(), steps.end(), wanted);
  if (found == steps.end()) {
    const auto nearest = std::min_element(steps.begin(), steps.end(), [&](int64_t a, int64_t b) {
      return std::abs(static_cast<double>(a) - static_cast<double>(wanted)) <
             std::abs(static_cast<double>(b) - static_cast<double>(wanted));
    });
    throw std::runtime_error(
        fmt::format("no layers were logged at step {}; the nearest is {} (log.layers_every says how "
                    "often they are)",
                    wanted, *nearest));
  }
  return static_cast<std::size_t>(found - steps.begin());
}

/// The columns of one stack: these kinds, without the prefix.
std::string stack_text(const LogContents& log, std::size_t row, const std::vector<std::size_t>& stack,
                       std::string_view prefix, const TextStyle& style) {
  const std::size_t kinds = log.schema.layer_kinds.size();
  const auto n_layers = static_cast<std::size_t>(log.schema.n_layers);
  constexpr std::size_t kIndexWidth = 5;
  constexpr std::size_t kMost = (kWidth - kIndexWidth) / kCell;
  const std::size_t tables = (stack.size() + kMost - 1) / kMost;
  const std::size_t per_table = (stack.size() + tables - 1) / std::max<std::size_t>(tables, 1);
  std::string out;
  for (std::size_t begin = 0; begin < stack.size(); begin += per_table) {
    const std::size_t end = std::min(stack.size(), begin + per_table);
    std::vector<std::vector<std::string>> headings;
    std::size_t height = 1;
    for (std::size_t i = begin; i < end; ++i) {
      headings.push_back(heading_lines(log.schema.layer_kinds[stack[i]].substr(prefix.size())));
      height = std::max(height, headings.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::string text = line + 1 == height ? "layer" : std::string(kIndexWidth, ' ');
      for (const std::vector<std::string>& heading : headings) {
        const std::size_t above = height - heading.size();
        text += padded_left(line < above ? "" : heading[line - above], kCell);
      }
      out += style.faint(text) + "\n";
    }
    for (std::size_t layer = 0; layer < n_layers; ++layer) {
      out += fmt::format("{:>5}", layer);
      for (std::size_t i = begin; i < end; ++i) {
        out += cell(log.tables.layers.grad_norm[(row * n_layers + layer) * kinds + stack[i]], "{:.2e}");
      }
      out += "\n";
    }
  }
  return out;
}

std::string layers_text(const LogContents& log, const StepRange& steps, const TextStyle& style) {
  const LayersTable& layers = log.tables.layers;
  if (layers.step.empty()) return "";
  const std::size_t row = row_of_step(layers.step, steps);
  std::vector<std::size_t> encoder;
  std::vector<std::size_t> others;
  for (std::size_t kind = 0; kind < log.schema.layer_kinds.size(); ++kind) {
    (log.schema.layer_kinds[kind].starts_with(kEncoder) ? encoder : others).push_back(kind);
  }
  std::string out = style.bold(fmt::format("gradient norm by layer and module, {} {}",
                                           log.tables.train.step.empty() && log.status.size() > 1 ? "entry" : "step",
                                           layers.step[row])) +
                    "\n";
  if (!encoder.empty()) {
    out += "encoder\n" + stack_text(log, row, encoder, kEncoder, style) + "decoder\n";
  }
  out += stack_text(log, row, others, "", style);
  const StemTable& stem = log.tables.stem;
  const auto same = std::find(stem.step.begin(), stem.step.end(), layers.step[row]);
  if (same == stem.step.end()) return out;
  out += "\n" + style.bold("gradient norm outside the blocks") + "\n";
  const auto stem_row = static_cast<std::size_t>(same - stem.step.begin());
  std::size_t width = 20;
  for (const std::string& kind : log.schema.stem_kinds) width = std::max(width, printable(kind).size());
  for (std::size_t kind = 0; kind < log.schema.stem_kinds.size(); ++kind) {
    out += fmt::format("{:<{}}{}\n", printable(log.schema.stem_kinds[kind]), width,
                       cell(stem.grad_norm[stem_row * log.schema.stem_kinds.size() + kind], "{:.2e}"));
  }
  return out;
}

}  // namespace

std::string StepRange::text() const {
  if (first == last) return fmt::format("{}", first);
  return last == std::numeric_limits<int64_t>::max() ? fmt::format("{}..", first) : fmt::format("{}..{}", first, last);
}

std::string log_text(const LogContents& log, const std::string& events, const InspectOptions& options,
                     const TextStyle& style) {
  const bool locked = run_is_locked(directory_of(log.path));
  std::string out = header_text(log, locked);
  if (const std::string divergence = first_divergence(events); !divergence.empty()) out += style.red(divergence);
  if (const auto found = first_blow_up(log); found) out += style.red(blow_up_text(*found) + "\n");
  for (const std::string& part :
       {train_text(log.tables.train, options, style), eval_text(log, style), layers_text(log, options.steps, style)}) {
    if (!part.empty()) out += "\n" + part;
  }
  return out;
}

}  // namespace ropewalk
