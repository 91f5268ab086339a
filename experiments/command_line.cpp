#include "experiments/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include "data/error.h"
#include "experiments/arguments.h"
#include "experiments/bench_command.h"
#include "experiments/command_help.h"
#include "experiments/comparison.h"
#include "experiments/exit_code.h"
#include "experiments/export_command.h"
#include "experiments/inspect_command.h"
#include "experiments/report.h"
#include "experiments/run_paths.h"
#include "experiments/run_result.h"
#include "experiments/sample_command.h"
#include "experiments/sweep_overview.h"
#include "experiments/sweep_plan.h"
#include "experiments/sweep_run.h"
#include "experiments/terminal.h"
#include "experiments/watch.h"
#include "framework/message.h"
#include "train/config_error.h"
#include "train/config_file.h"
#include "train/config_resolve.h"
#include "train/describe.h"
#include "train/durable_file.h"
#include "train/eval_run.h"
#include "train/hdf5_file.h"
#include "train/options.h"
#include "train/probe_run.h"
#include "train/read_log.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/suggest.h"
#include "train/text.h"
#include "train/train_run.h"
#include "train/verify.h"
#include "train/warnings.h"
#include "train/weights_file.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

/// Writes data to standard output. A reader that went away (`| head`) or a full disk is an error.
void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw std::runtime_error("standard output cannot be written");
}

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) message("{}\n", warning);
}

/// The command as a shell would read it again.
std::string shell_text(const std::vector<std::string>& words) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,+:@%";
  std::string out = "ropewalk";
  for (const std::string& word : words) {
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      out += " " + word;
      continue;
    }
    out += " '";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += "'";
  }
  return out;
}

std::string stem_of(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  return stem.empty() ? "run" : stem;
}

struct Call {
  Arguments arguments;
  std::string command_line;

  const std::string& file() const { return arguments.files.front(); }
  const std::vector<std::string>& overrides() const { return arguments.overrides; }
};

int train(const Call& call) {
  const bool resume = call.arguments.has("--resume");
  const bool begins_with_another = call.arguments.has("--from");
  TrainRequest request{.command_line = call.command_line, .resume = resume};
  if (resume) {
    if (!call.arguments.files.empty() || call.arguments.has("--run") || call.arguments.has("--name") ||
        begins_with_another) {
      throw UsageError(
          "'ropewalk train --resume RUN' takes neither FILE, --run, --name nor --from; the run has its own "
          "configuration "
          "and directory");
    }
    request.directory = call.arguments.value("--resume");
    const std::string config = RunPaths{request.directory}.config();
    std::error_code ignored;
    if (!fs::exists(config, ignored)) {
      throw UsageError(fmt::format("--resume '{}': holds no run (no config.ini)", printable(request.directory)));
    }
    request.config = load_config(config, call.overrides());
  } else {
    if (call.arguments.files.empty() && !begins_with_another) {
      throw UsageError("'ropewalk train' needs a FILE, --resume RUN or --from RUN");
    }
    if (call.arguments.has("--run") && call.arguments.has("--name")) {
      throw UsageError(
          "'ropewalk train' takes --run or --name, not both: --run DIR is the directory, --name NAME makes "
          "one in runs/NAME/");
    }
    const std::string from = call.arguments.value("--from");
    if (call.arguments.files.empty() && is_weights_file(from)) {
      throw UsageError(fmt::format("--from '{}' is a file of weights, which says not how to train; give a FILE besides",
                                   printable(from)));
    }
    const std::string file = call.arguments.files.empty() ? config_in(from) : call.file();
    std::vector<std::string> overrides = call.overrides();
    if (begins_with_another) overrides.insert(overrides.begin(), "train.from=" + from);
    request.config = load_config(file, overrides);
    request.directory = call.arguments.value("--run");
    request.name = call.arguments.value("--name", call.arguments.files.empty() ? run_id_of(from) : stem_of(file));
  }
  const TrainOutcome outcome = train_run(request);
  print(outcome.directory + "\n");
  switch (outcome.status) {
    case LogStatus::finished:
      return kDone;
    case LogStatus::interrupted:
      message("interrupted; 'ropewalk train --resume {}' goes on from here\n", outcome.directory);
      return exit_code_after(outcome.signal);
    case LogStatus::diverged:
      return kDiverged;
    default:
      return kError;
  }
}

int sweep(const Call& call) {
  const int64_t jobs = whole_number(call.arguments, "--jobs", 0, 1, 4096);
  const SweepPlan plan = plan_sweep(call.file(), call.overrides());
  warn(plan.warnings);
  if (call.arguments.has("--dry-run")) {
    print(runs_text(plan));
    return kDone;
  }
  const SweepOutcome outcome =
      run_sweep(plan, {.jobs = static_cast<int>(jobs), .directory = call.arguments.value("--run")});
  if (outcome.signal != 0) {
    message("interrupted; the same command goes on from here\n");
    return outcome.exit_code();
  }
  const SweepResults& results = outcome.results;
  const std::string page = report_in(results.directory);
  write_file_durably(page, report_html(read_report_subject(std::span(&results.directory, 1))));
  print(comparison_text(compare(results.runs), style_of(STDOUT_FILENO)) + "\n" + page + "\n");
  return outcome.exit_code();
}

int eval(const Call& call) {
  const RunEvaluation evaluation = evaluate_run(call.file(), call.overrides());
  print(scores_text(evaluation));
  for (const std::string& note : evaluation.scores.notes) message("{}\n", note);
  return kDone;
}

int sample(const Call& call) {
  sample_command(call.arguments, print);
  return kDone;
}

int export_run(const Call& call) {
  export_command(call.arguments, print);
  return kDone;
}

int probe(const Call& call) {
  const SweepPlan plan = plan_sweep(call.file(), call.overrides(), option_table(), Purpose::probe);
  warn(plan.warnings);
  const std::vector<SweepPoint> points = variant_points(plan);  // a probe has seeds of its own
  const std::string given = call.arguments.value("--run");
  if (!given.empty()) use_run_directory(given);
  const std::string root = given.empty() ? create_run_directory("runs", plan.name) : given;
  std::vector<ProbeResult> results;
  for (const SweepPoint& point : points) {
    const std::string directory = points.size() == 1 ? root : (fs::path(root) / point.variant).string();
    results.push_back(probe_run(point.config, point.variant, directory, call.command_line));
    message("[{}/{}] {}: {}\n", results.size(), points.size(), point.variant, directory);
  }
  print(probe_text(results));
  return kDone;
}

int describe_model(const Call& call) {
  const SweepPlan plan = plan_sweep(call.file(), call.overrides());
  warn(plan.warnings);
  print(plan.is_sweep ? describe_sweep(plan) : describe(plan.points.front().config));
  return kDone;
}

std::string runs_as_comments(const SweepPlan& plan) {
  std::string out = "# The runs:\n# ";
  for (const char c : runs_text(plan)) out += c == '\n' ? std::string("\n# ") : std::string(1, c);
  out.resize(out.size() - 2);
  return out;
}

int config(const Call& call) {
  if (call.arguments.has("--markdown")) {
    if (!call.arguments.files.empty() || !call.overrides().empty()) {
      throw UsageError("'ropewalk config --markdown' prints the tables of all keys and takes no FILE");
    }
    print(options_markdown(option_table()));
    return kDone;
  }
  if (call.arguments.files.empty()) throw UsageError("'ropewalk config' needs a FILE, or --markdown");
  const SweepPlan plan = plan_sweep(call.file(), call.overrides());
  warn(plan.warnings);
  print(plan.is_sweep ? plan.text + "\n" + runs_as_comments(plan) : print_config(plan.points.front().config, true));
  return kDone;
}

int inspect_log(const Call& call) {
  print(inspect_command(call.arguments, style_of(STDOUT_FILENO)));
  return kDone;
}

int watch_log(const Call& call) {
  watch(call.file(), real_number(call.arguments, "--every", 1, 0.05, 3600));
  return kDone;
}

int report(const Call& call) {
  const std::vector<std::string>& directories = call.arguments.files;
  const std::string page = call.arguments.value("--output", report_in(directories.front()));
  const ReportSubject subject = read_report_subject(directories);
  for (const RunResult& run : subject.runs) {
    if (!run.log_problem.empty()) show_warnings({run.id + ": " + run.log_problem});
  }
  write_file_durably(page, report_html(subject));
  print(page + "\n");
  return kDone;
}

int verify(const Call& call) {
  const VerifyReport report = verify_conformance(call.file());
  print(to_text(report));
  for (const std::string& failure : report.failures) message("{}\n", failure);
  return report.failed == 0 ? kDone : kError;
}

int bench(const Call& call) {
  print(bench_command(call.arguments));
  return kDone;
}

int recover(const Call& call) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(call.file(), ignored);
  const std::string path = is_directory ? RunPaths{call.file()}.log() : call.file();
  const RecoveredLog recovered = recover_log(path);
  std::string status;
  for (std::size_t i = 0; i < recovered.before.size() && i < 1; ++i) {
    const LogStatus after = recovered.after[i];
    status = recovered.before[i] == after
                 ? fmt::format("; status {}", to_string(after))
                 : fmt::format("; status {} -> {}", to_string(recovered.before[i]), to_string(after));
  }
  print(fmt::format("{}: {} training rows, last step {}{}\n", path, recovered.train_rows, recovered.last_step, status));
  return kDone;
}

struct Command {
  const char* name;
  int (*run)(const Call&);
};

constexpr Command kCommands[] = {{"train", train},     {"sweep", sweep},         {"eval", eval},
                                 {"sample", sample},   {"probe", probe},         {"describe", describe_model},
                                 {"config", config},   {"inspect", inspect_log}, {"watch", watch_log},
                                 {"report", report},   {"export", export_run},   {"verify", verify},
                                 {"recover", recover}, {"bench", bench}};

[[noreturn]] void refuse_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandInfo& info : command_infos()) names.push_back(info.name);
  const std::string nearest = nearest_name(name, names);
  throw UsageError(fmt::format(
      "unknown command '{}'; {}", printable(name),
      nearest.empty() ? "'ropewalk --help' lists the commands" : fmt::format("did you mean '{}'?", nearest)));
}

void check_counts(const CommandInfo& info, const Arguments& arguments) {
  if (arguments.files.size() < info.least_files) {
    throw UsageError(fmt::format("missing argument; usage: ropewalk {} {}", info.name, info.usage));
  }
  if (arguments.files.size() > info.most_files) {
    const std::string hint = info.takes_overrides ? "; configuration keys are given as section.key=value" : "";
    throw UsageError(fmt::format("unexpected argument '{}'{}; usage: ropewalk {} {}",
                                 printable(arguments.files[info.most_files]), hint, info.name, info.usage));
  }
  if (!info.takes_overrides && !arguments.overrides.empty()) {
    throw UsageError(fmt::format("'ropewalk {}' takes no section.key=value: '{}'", info.name,
                                 printable(arguments.overrides.front())));
  }
}

int help(const std::vector<std::string>& words) {
  if (words.empty()) {
    print(overview_help());
  } else if (words.front() == "keys") {
    print(options_help(option_table()));
  } else if (const CommandInfo* info = find_command(words.front())) {
    print(command_help(*info));
  } else {
    refuse_command(words.front());
  }
  return kDone;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    message("{}", overview_help());
    return kUsage;
  }
  const std::string& name = words.front();
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (name == "--help" || name == "-h" || name == "help") return help(rest);
  if (name == "--version") {
    print(fmt::format("ropewalk {}\n", ROPEWALK_VERSION));
    return kDone;
  }
  const CommandInfo* info = find_command(name);
  if (info == nullptr) refuse_command(name);
  Call call{parse_arguments(name, info->flags, rest), shell_text(words)};
  if (call.arguments.has("--help")) return help({name});
  check_counts(*info, call.arguments);
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(call);
  }
  refuse_command(name);
}

int fail_with(int code, const std::string& reason) {
  std::fflush(stdout);
  message("ropewalk: error: {}\n", reason);
  return code;
}

}  // namespace

int run_command_line(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const ConfigError& error) {
    std::fflush(stdout);
    message("{}\n", error.what());
    return kUsage;
  } catch (const UsageError& error) {
    return fail_with(kUsage, error.what());
  } catch (const DataError& error) {
    return fail_with(kUnreadable, error.what());
  } catch (const LogError& error) {
    return fail_with(kUnreadable, error.what());
  } catch (const Hdf5Error& error) {
    return fail_with(kUnreadable, error.what());
  } catch (const CheckpointError& error) {
    return fail_with(kUnreadable, error.what());
  } catch (const std::bad_alloc&) {
    return fail_with(kError, "out of memory; 'ropewalk describe FILE' says how much a configuration takes");
  } catch (const std::exception& error) {
    return fail_with(kError, error.what());
  } catch (...) {
    return fail_with(kError, "an exception of unknown type");
  }
}

}  // namespace ropewalk
