#include "experiments/sweep_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "data/files.h"
#include "experiments/arguments.h"
#include "experiments/exit_code.h"
#include "experiments/run_paths.h"
#include "experiments/sweep_progress.h"
#include "experiments/terminal.h"
#include "experiments/text_file.h"
#include "experiments/worker.h"
#include "train/durable_file.h"
#include "train/machine.h"
#include "train/run_directory.h"
#include "train/text.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};  // for a worker of an earlier sweep to end

bool is_empty_but_for_lock(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.path().filename() != ".lock") return false;
  }
  return true;
}

[[noreturn]] void refuse(const fs::path& directory, const std::string& what) {
  throw UsageError(fmt::format("'{}' {}; give this sweep another name (sweep.name=NAME) or directory (--run DIR)",
                               directory.string(), what));
}

constexpr std::size_t kShown = 5;  // runs or keys in a message

/// Every run that there is of the directory's sweep must be in the new plan as it was. The new plan may have more of
/// them: seeds are added when the first ones were too few.
void check_same_sweep(const SweepPaths& paths, const SweepPlan& plan) {
  std::map<std::string, const SweepPoint*> points;
  for (const SweepPoint& point : plan.points) points[run_id(point)] = &point;
  std::vector<std::string> missing;
  std::vector<std::string> different;
  SweepPlan before;
  try {
    before = plan_sweep(paths.sweep_file(), {});
  } catch (const ConfigError& error) {
    refuse(paths.directory, fmt::format("holds a sweep whose sweep.ini cannot be read ({})", error.messages().front()));
  }
  for (const SweepPoint& old : before.points) {
    std::error_code ignored;
    if (!fs::exists(paths.run(run_id(old)).directory, ignored)) continue;
    const auto found = points.find(run_id(old));
    if (found == points.end()) {
      missing.push_back(run_id(old));
      continue;
    }
    for (KeyDifference& key : differing_keys(old.config.config, found->second->config.config)) {
      const bool known = std::find(different.begin(), different.end(), key.text) != different.end();
      if (!known) different.push_back(std::move(key.text));
    }
  }
  if (!different.empty()) refuse(paths.directory, "holds a sweep with other values: " + first_of(different, kShown));
  if (!missing.empty()) {
    refuse(paths.directory, "holds a sweep with runs that this one has not: " + first_of(missing, kShown));
  }
}

/// A run's values, as its worker was given them, must be those of the plan: a newer program may have other defaults.
void check_same_values(const SweepPaths& paths, const SweepPoint& point) {
  const std::string file = paths.config(run_id(point));
  std::error_code ignored;
  if (!fs::exists(paths.run(run_id(point)).directory, ignored) || !fs::exists(file, ignored)) return;
  if (text_of(file) == print_config(point.config, false)) return;
  try {
    const ResolvedConfig before = load_config(file, {});
    std::vector<std::string> different;
    for (KeyDifference& key : differing_keys(before.config, point.config.config)) {
      different.push_back(std::move(key.text));
    }
    if (!different.empty()) {
      refuse(paths.directory,
             fmt::format("holds the run {} with other values: {}", run_id(point), first_of(different, kShown)));
    }
  } catch (const ConfigError& error) {
    refuse(paths.directory,
           fmt::format("holds the run {}, whose values cannot be read ({})", run_id(point), error.messages().front()));
  }
}

void make_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw RunDirectoryError(
        fmt::format("sweep directory '{}' cannot be made ({}); choose a place that can be written "
                    "with --run DIR",
                    directory.string(), error.message()));
  }
}

bool has_checkpoint(const RunPaths& run) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.checkpoints(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".") && !name.ends_with(".tmp")) return true;
  }
  return false;
}

/// Puts what one attempt at a run wrote where the run is, after what earlier attempts wrote. Until then it is in a file
/// of its own, so that neither progress nor errors of earlier attempts are taken for those of this one.
void settle_output(const SweepPaths& paths, const std::string& id) {
  const std::string output = paths.output(id);
  const std::string target = paths.run(id).output();
  std::error_code error;
  if (!fs::exists(output, error) || !fs::is_directory(paths.run(id).directory, error)) return;
  if (fs::exists(target, error)) {
    std::ofstream(target, std::ios::binary | std::ios::app) << std::ifstream(output, std::ios::binary).rdbuf();
    fs::remove(output, error);
  } else {
    fs::rename(output, target, error);
  }
}

void set_aside(const SweepPaths& paths, const std::string& id) {
  std::error_code ignored;
  for (int i = 1;; ++i) {
    const fs::path aside = paths.work() / fmt::format("{}-attempt-{}", id, i);
    if (fs::exists(aside, ignored)) continue;
    fs::rename(paths.run(id).directory, aside);
    return;
  }
}

/// The last line of a worker's output that says what went wrong; "" if none does.
std::string last_error(const std::string& output) {
  constexpr std::string_view kLead = "ropewalk: error: ";
  const std::string text = tail_of(output, 4096);
  std::string_view found;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (const std::string_view line = trimmed(rest.substr(0, end)); line.find("error: ") != std::string_view::npos) {
      found = line;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (found.starts_with(kLead)) found.remove_prefix(kLead.size());
  return std::string(found.substr(0, 300));
}

int default_jobs(const SweepPlan& plan) {
  int64_t threads = 1;
  for (const SweepPoint& point : plan.points) threads = std::max(threads, point.config.config.train.threads);
  return std::max(1, static_cast<int>(static_cast<int64_t>(allowed_cores().size()) / threads));
}

struct Worker {
  pid_t pid = 0;
  std::size_t run = 0;
  std::size_t slot = 0;
  std::string output;
};

class SweepRunner {
 public:
  SweepRunner(const SweepPlan& plan, const SweepOptions& options)
      : planned_(plan),
        plan_(plan),
        paths_{options.directory.empty() ? fs::path("runs") / plan.name : fs::path(options.directory)},
        executable_(options.executable),
        cores_(allowed_cores()),
        jobs_(options.jobs > 0 ? options.jobs : default_jobs(plan)) {
    for (std::size_t i = 0; i < plan_.points.size(); ++i) {
      SweepPoint& point = plan_.points[i];
      index_[run_id(point)] = i;
      if (!point.from.empty()) point.config.config.train.from = paths_.run(point.from).directory.string();
    }
  }
  ~SweepRunner() { stop_all(); }
  SweepRunner(const SweepRunner&) = delete;
  SweepRunner& operator=(const SweepRunner&) = delete;

  SweepOutcome run() {
    make_directories(paths_.directory);
    const RunLock lock(paths_.directory.string());
    std::error_code ignored;
    if (fs::exists(paths_.sweep_file(), ignored)) {
      check_same_sweep(paths_, planned_);
    } else if (!is_empty_but_for_lock(paths_.directory)) {
      refuse(paths_.directory, "is not empty and holds no sweep");
    }
    make_directories(paths_.work());
    read_what_there_is();
    check_data_files();
    write_file_durably(paths_.sweep_file(), plan_.text);
    progress_.begin(plan_.name, plan_.points.size(), waiting_.size(), paths_.directory.string());
    work();
    progress_.end();
    return {std::move(results_), signals_.signal()};
  }

 private:
  RunResult& result(std::size_t i) { return results_.runs[i]; }

  void read_what_there_is() {
    results_ = {plan_.name, paths_.directory.string(), plan_.text, plan_.varying_keys, {}};
    for (const SweepPoint& point : plan_.points) {
      RunResult run = planned_run(plan_, point);
      read_sweep_run(paths_.directory.string(), run);
      check_same_values(paths_, point);
      const bool done = run.status == "finished" || run.status == "diverged";
      if (!done) waiting_.push_back(results_.runs.size());
      results_.runs.push_back(std::move(run));
    }
  }

  /// One message now, not one failed run after the other.
  void check_data_files() const {
    std::set<std::string> paths;
    for (const std::size_t i : waiting_) {
      const DataConfig& data = plan_.points[i].config.config.data;
      if (data.source != "task") paths.insert(data.path);
    }
    for (const std::string& path : paths) find_files(path);
  }

  void write_runs() {
    if (std::exchange(runs_changed_, false)) write_file_durably(paths_.runs_table(), results_csv(results_));
  }

  void work() {
    while (true) {
      start_workers();
      write_runs();  // after the next runs have started, which need not wait for the disk
      if (workers_.empty() && waiting_.empty()) break;
      show_progress();
      signals_.wait(200);
      if (const int interrupts = signals_.take_interrupts(); interrupts > 0) interrupt(interrupts);
      collect();
    }
  }

  void interrupt(int times) {
    progress_.say(fmt::format("signal {}: {} running workers write their checkpoints; once more leaves at once",
                              signals_.signal(), workers_.size()));
    for (int i = 0; i < times; ++i) {
      for (const Worker& worker : workers_) kill(worker.pid, signals_.signal());
    }
    waiting_.clear();
  }

  std::size_t free_slot() const {
    for (std::size_t slot = 0;; ++slot) {
      const bool taken =
          std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) { return worker.slot == slot; });
      if (!taken) return slot;
    }
  }

  void start_workers() {
    std::deque<std::size_t> later;
    while (!waiting_.empty() && workers_.size() < static_cast<std::size_t>(jobs_)) {
      const std::size_t i = waiting_.front();
      waiting_.pop_front();
      if (const std::string& from = plan_.points[i].from; !from.empty()) {
        const std::size_t k = index_.at(from);
        const RunResult& first = result(k);
        const auto waits_in = [&](const auto& list) { return std::find(list.begin(), list.end(), k) != list.end(); };
        if (first.status == "running" || waits_in(waiting_) || waits_in(later)) {
          later.push_back(i);
          continue;
        }
        if (!first.counts()) {
          fail(i, fmt::format("the run that it begins with, {}, {}", from, first.status));
          continue;
        }
      }
      if (run_is_locked(paths_.run(result(i).id).directory.string())) {
        if (Clock::now() - begun_ < kPatience) {
          later.push_back(i);
        } else {
          fail(i, "its directory is in use by another process");
        }
        continue;
      }
      try {
        start(i);
      } catch (const std::exception& error) {
        fail(i, error.what());
      }
    }
    waiting_.insert(waiting_.end(), later.begin(), later.end());
  }

  void start(std::size_t i) {
    const std::string id = result(i).id;
    const RunPaths run = paths_.run(id);
    const std::string directory = run.directory.string();
    std::error_code ignored;
    settle_output(paths_, id);
    fs::remove(paths_.output(id), ignored);  // of an attempt that did not come as far as to have a directory
    fs::remove(paths_.failure(id), ignored);
    WorkerCommand command{executable_, {}, paths_.output(id), -1};
    if (has_checkpoint(run)) {
      command.arguments = {"train", "--resume", directory};
    } else {
      if (fs::exists(directory, ignored) && !is_empty_but_for_lock(directory)) set_aside(paths_, id);
      write_file_durably(paths_.config(id), print_config(plan_.points[i].config, false));
      command.arguments = {"train", paths_.config(id), "--run", directory};
    }
    const std::size_t slot = free_slot();
    // Where runs leave cores free, the system places them better than we: it sees what else is running (another sweep
    // would take the same first cores) and which cores are two threads of one.
    if (static_cast<std::size_t>(jobs_) == cores_.size() && plan_.points[i].config.config.train.threads == 1) {
      command.core = cores_[slot];
    }
    const pid_t pid = start_worker(command);
    workers_.push_back({pid, i, slot, command.output_file});
    result(i).status = "running";
    runs_changed_ = true;
  }

  void collect() {
    for (std::size_t w = 0; w < workers_.size();) {
      int status = 0;
      const pid_t ended = waitpid(workers_[w].pid, &status, WNOHANG);
      if (ended == 0) {
        ++w;
        continue;
      }
      const Worker worker = workers_[w];
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(w));
      finish(worker, status);
    }
  }

  void finish(const Worker& worker, int status) {
    runs_changed_ = true;
    RunResult& run = result(worker.run);
    std::string error = last_error(worker.output);
    settle_output(paths_, run.id);
    RunResult fresh = planned_run(plan_, plan_.points[worker.run]);
    read_sweep_run(paths_.directory.string(), fresh);
    run = std::move(fresh);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool after_signal = code == exit_code_after(SIGINT) || code == exit_code_after(SIGTERM);
    const bool as_it_says =
        (code == kDone && run.status == "finished") || (code == kDiverged && run.status == "diverged") ||
        (after_signal && run.status == "interrupted") || (signals_.signal() != 0 && run.status != "failed");
    if (!as_it_says) {
      const std::string what = code == kDone ? "it ended without having finished" : end_text(status);
      fail(worker.run, error.empty() ? what : what + ": " + error);
      return;
    }
    progress_.ended(run);
  }

  void fail(std::size_t i, const std::string& reason) {
    runs_changed_ = true;
    RunResult& run = result(i);
    run.status = "failed";
    run.reason = reason;
    std::replace_if(
        run.reason.begin(), run.reason.end(), [](unsigned char c) { return c < 0x20; }, ' ');
    try {
      write_file_durably(paths_.failure(run.id), run.reason + "\n");
    } catch (const std::system_error&) {
      // A full disk: the reason is on the screen, and the next run of the sweep tries again.
    }
    progress_.ended(run);
  }

  void show_progress() {
    std::vector<std::pair<std::string, std::string>> running;
    for (const Worker& worker : workers_) running.emplace_back(result(worker.run).id, worker.output);
    progress_.show(running, waiting_.size());
  }

  void stop_all() {
    for (const Worker& worker : workers_) kill(worker.pid, SIGTERM);
    for (const Worker& worker : workers_) waitpid(worker.pid, nullptr, 0);
    workers_.clear();
  }

  const SweepPlan& planned_;
  SweepPlan plan_;                            ///< the same with the directories of runs that others begin with
  std::map<std::string, std::size_t> index_;  ///< of a run in the plan, by its name
  SweepPaths paths_;
  std::string executable_;
  std::vector<int> cores_;
  int jobs_;
  SweepResults results_;
  bool runs_changed_ = true;  // since runs.csv was written
  std::deque<std::size_t> waiting_;
  std::vector<Worker> workers_;
  SignalWatch signals_;
  SweepProgress progress_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace

int SweepOutcome::exit_code() const {
  if (signal != 0) return exit_code_after(signal);
  bool diverged = false;
  for (const RunResult& run : results.runs) {
    if (run.has_diverged()) {
      diverged = true;
    } else if (!run.counts()) {
      return kError;
    }
  }
  return diverged ? kDiverged : kDone;
}

SweepOutcome run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  return SweepRunner(plan, options).run();
}

}  // namespace ropewalk
