#include "experiments/export_command.h"

#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "experiments/export_csv.h"
#include "experiments/export_events.h"
#include "experiments/run_paths.h"
#include "experiments/run_result.h"
#include "experiments/table_view.h"
#include "framework/message.h"
#include "train/text.h"
#include "train/warnings.h"
#include "train/weights_file.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

using Print = std::function<void(const std::string&)>;

/// The log of a run, by its directory or its own path.
LogContents open_log(const std::string& run) {
  std::error_code ignored;
  LogContents log = read_log(fs::is_directory(run, ignored) ? RunPaths{run}.log() : run, LogDamage::left_out);
  show_warnings(log.damage);
  return log;
}

void print_csv(const LogContents& log, const std::string& name, const Print& print) {
  const std::vector<TableView> tables = selected_views(log, name);
  if (tables.size() != 1) {
    throw UsageError(fmt::format("--csv - prints one table, --only '{}' names {}", printable(name), tables.size()));
  }
  write_csv(log.schema, tables.front(), [&](std::string_view piece) { print(std::string(piece)); });
}

void export_log(const Arguments& arguments, const Print& print) {
  const LogContents log = open_log(arguments.files.front());
  const std::string csv = arguments.value("--csv");
  if (csv == "-") return print_csv(log, arguments.value("--only", "train"), print);
  const std::vector<TableView> tables =
      arguments.has("--only") ? selected_views(log, arguments.value("--only")) : table_views(log);
  if (!csv.empty()) {
    for (const std::string& path : export_csv(log, tables, csv)) print(path + "\n");
  }
  if (const std::string events = arguments.value("--tensorboard"); !events.empty()) {
    print(export_events(log, tables, events) + "\n");
  }
}

WeightNames names_of(const Arguments& arguments) {
  const std::string wanted = arguments.value("--names", "ropewalk");
  std::vector<std::string> known;
  for (const auto& [value, name] : kWeightNames) {
    if (name == wanted) return value;
    known.emplace_back(name);
  }
  throw UsageError(fmt::format("--names '{}': must be one of {}", printable(wanted), joined(known)));
}

void export_tensors(const Arguments& arguments, const Print& print) {
  const ExportedWeights exported = export_weights(arguments.files.front(), arguments.overrides, names_of(arguments),
                                                  arguments.value("--safetensors"));
  for (const std::string& path : exported.files) print(path + "\n");
  for (const std::string& note : exported.notes) message("{}\n", note);
}

/// Refuses what would have no effect, before anything is written.
void check(const Arguments& arguments) {
  const std::string& run = arguments.files.front();
  const bool log = arguments.has("--csv") || arguments.has("--tensorboard");
  const bool weights = arguments.has("--safetensors");
  if (!log && !weights) {
    throw UsageError("'ropewalk export' needs what to write: --csv DIR, --tensorboard DIR or --safetensors FILE");
  }
  if (is_sweep_directory(run)) {
    throw UsageError(fmt::format("'{}' is a sweep; export the runs in it, one at a time", printable(run)));
  }
  if (arguments.has("--only") && !log) throw UsageError("--only chooses tables, for --csv and --tensorboard");
  if (arguments.has("--names") && !weights) throw UsageError("--names is of weights, for --safetensors");
  if (!arguments.overrides.empty() && !weights) {
    throw UsageError(
        fmt::format("'{}' changes no log; it is for --safetensors", printable(arguments.overrides.front())));
  }
  if (arguments.value("--csv") == "-" && (weights || arguments.has("--tensorboard"))) {
    throw UsageError("--csv - takes standard output for itself; give it alone");
  }
}

}  // namespace

void export_command(const Arguments& arguments, const Print& print) {
  check(arguments);
  if (arguments.has("--safetensors")) export_tensors(arguments, print);
  if (arguments.has("--csv") || arguments.has("--tensorboard")) export_log(arguments, print);
}

}  // namespace ropewalk
