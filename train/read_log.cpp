#include "train/read_log.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <system_error>
#include <type_traits>

#include "train/durable_file.h"
#include "train/hdf5_file.h"
#include "train/log_file.h"
#include "train/run_directory.h"
#include "train/warnings.h"

namespace ropewalk {
namespace {

template <typename T>
std::vector<T> one_dimensional(const Hdf5File& file, const std::string& object) {
  if (file.dataset(object).shape.size() != 1) file.fail(object, "is not one-dimensional");
  return file.values<T>(object);
}

template <typename T>
std::vector<T> labels(const Hdf5File& file, const std::string& object) {
  return file.has_dataset(object) ? one_dimensional<T>(file, object) : std::vector<T>();
}

LogHeader read_header(const Hdf5File& file) {
  if (!file.has_attribute("/", "schema") || file.attribute<std::string>("/", "schema") != kLogSchema) {
    throw Hdf5Error("'" + file.path + "': is not a log of Ropewalk (no attribute schema = " + kLogSchema + ")");
  }
  if (const auto version = file.attribute<int64_t>("/", "schema_version"); version != kLogSchemaVersion) {
    throw Hdf5Error("'" + file.path + "': has version " + std::to_string(version) + " of " + kLogSchema +
                    ", this program reads version " + std::to_string(kLogSchemaVersion));
  }
  const auto text = [&](const char* name) { return file.attribute<std::string>("/", name); };
  return {text("run_id"), text("config"), text("command_line"), text("version"),
          text("host"),   text("cpu"),    text("device"),       text("started")};
}

LogSchema read_schema(const Hdf5File& file) {
  LogSchema schema;
  schema.entries = labels<int64_t>(file, "/run/entry");
  if (schema.entries.empty()) file.fail("/run/entry", "is missing or empty");
  const auto layers = labels<int64_t>(file, "/layers/layer").size(),
             attention_layers = labels<int64_t>(file, "/attention/layer").size(),
             depths = labels<int64_t>(file, "/residual/depth").size();
  const std::size_t n_layers = std::max({layers, attention_layers, depths == 0 ? 0 : depths - 1});
  for (const std::size_t count : {layers, attention_layers, depths == 0 ? 0 : depths - 1}) {
    if (count != 0 && count != n_layers) {
      file.fail("/layers", "and other groups have different numbers of layers");
    }
  }
  schema.n_layers = static_cast<int64_t>(n_layers);
  schema.n_heads = static_cast<int64_t>(labels<int64_t>(file, "/attention/head").size());
  schema.layer_kinds = labels<std::string>(file, "/layers/kind");
  schema.stem_kinds = labels<std::string>(file, "/stem/kind");
  schema.eval_lengths = labels<int64_t>(file, "/eval/length");
  schema.positions = labels<int64_t>(file, "/eval/position");
  schema.task = file.has_dataset("/eval/accuracy");
  if (!schema.eval_lengths.empty()) {
    schema.eval_protocol = file.attribute<std::string>("/eval", "protocol");
    schema.train_length = file.attribute<int64_t>("/eval", "train_length");
  }
  return schema;
}

std::vector<LogStatus> read_status(const Hdf5File& file, const LogSchema& schema) {
  std::vector<LogStatus> status;
  for (const int64_t value : one_dimensional<int64_t>(file, "/run/status")) {
    if (value < 0 || value > static_cast<int64_t>(LogStatus::failed)) {
      file.fail("/run/status", "holds the unknown status " + std::to_string(value));
    }
    status.push_back(static_cast<LogStatus>(value));
  }
  if (status.size() != schema.entries.size()) file.fail("/run/status", "and /run/entry have different lengths");
  return status;
}

/// Reads the whole rows of one group; a group that the file lacks stays empty. With `notes` the columns that cannot be
/// read are noted there and left out.
template <typename Table>
void read_group(const Hdf5File& file, const LogSchema& schema, const char* name, Table& table,
                std::vector<std::string>* notes) {
  const std::string path = std::string("/") + name + "/";
  bool present = false;
  for_each_column(table, [&](const ColumnSpec& spec, auto&) { present |= row_size(schema, name, spec) > 0; });
  if (!present) return;
  const auto leave_out = [&](const std::string& object) {
    const auto bad = file.damaged.find(object);
    if (notes == nullptr || bad == file.damaged.end()) return false;
    notes->push_back("'" + file.path + "': '" + object + "' " + bad->second);
    return true;
  };

  if (leave_out(path + "step")) return;
  table.step = one_dimensional<int64_t>(file, path + "step");
  // The value of rows that were made but not yet filled.
  uint64_t rows = static_cast<uint64_t>(std::find(table.step.begin(), table.step.end(), -1) - table.step.begin());
  for_each_column(table, [&](const ColumnSpec& spec, auto& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    const std::string object = path + spec.name;
    if (row_size(schema, name, spec) == 0 || leave_out(object)) return;
    if (spec.added_later && !file.has_dataset(object)) return;
    const std::vector<uint64_t>& shape = file.dataset(object).shape;
    if (shape.empty() || std::vector<uint64_t>(shape.begin() + 1, shape.end()) != row_shape(schema, spec)) {
      file.fail(object, "has a shape that does not fit its labels");
    }
    rows = std::min(rows, shape[0]);
    values = file.values<Value>(object);
  });
  table.step.resize(rows);
  for_each_column(table, [&](const ColumnSpec& spec, auto& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    constexpr Value unwritten = std::is_same_v<Value, int64_t> ? Value(-1) : std::numeric_limits<Value>::quiet_NaN();
    values.resize(rows * row_size(schema, name, spec), unwritten);
  });
}

template <typename Table>
void cut_table(Table& table, int64_t last_step) {
  const std::vector<int64_t> step = table.step;
  const auto keep = [&](auto& values) {
    const std::size_t width = step.empty() ? 0 : values.size() / step.size();
    std::size_t kept = 0;
    for (std::size_t row = 0; row < step.size(); ++row) {
      if (step[row] > last_step) continue;
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
      std::copy(begin, begin + static_cast<std::ptrdiff_t>(width),
                values.begin() + static_cast<std::ptrdiff_t>(kept * width));
      ++kept;
    }
    values.resize(kept * width);
  };
  for_each_column(table, [&](const ColumnSpec&, auto& values) { keep(values); });
  keep(table.step);
}

}  // namespace

LogContents read_log(const std::string& path, LogDamage damage) {
  try {
    const Hdf5File file = read_hdf5(path, Hdf5Access::live);
    LogContents log;
    log.path = path;
    log.header = read_header(file);
    log.schema = read_schema(file);
    log.status = read_status(file, log.schema);
    std::vector<std::string>* notes = damage == LogDamage::left_out ? &log.damage : nullptr;
    for_each_group(log.tables,
                   [&](const char* name, auto& table) { read_group(file, log.schema, name, table, notes); });
    return log;
  } catch (const Hdf5Error& error) {
    throw LogError(std::string("cannot read log ") + error.what());
  }
}

void cut_after(LogTables& tables, int64_t last_step) {
  for_each_group(tables, [&](const char*, auto& table) { cut_table(table, last_step); });
}

void cut_after(EvalTable& table, int64_t last_step) {
  cut_table(table, last_step);
}

RecoveredLog recover_log(const std::string& path) {
  LogContents log = read_log(path);
  const RunLock lock(directory_of(path));
  if (!lock.warning().empty()) show_warnings({lock.warning()});
  log = read_log(path);  // as it is now that nobody else writes
  RecoveredLog result;
  result.before = log.status;
  std::replace(log.status.begin(), log.status.end(), LogStatus::running, LogStatus::interrupted);
  result.after = log.status;
  result.train_rows = static_cast<int64_t>(log.tables.train.step.size());
  if (result.train_rows > 0) result.last_step = log.tables.train.step.back();
  try {
    write_log(path, log.schema, log.header, log.status, log.tables);
  } catch (const Hdf5Error& error) {
    throw LogWriteError(std::string("cannot rewrite log ") + error.what());
  } catch (const std::system_error& error) {
    throw LogWriteError(std::string("cannot rewrite log: ") + error.what());
  }
  return result;
}

}  // namespace ropewalk
