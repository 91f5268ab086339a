#include "train/read_log.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "framework/error.h"
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

/// Is the group one whose columns read_log_in_slabs() does not keep?
bool read_in_slabs(std::string_view group) {
  return group == "layers" || group == "residual" || group == "attention";
}

/// Of a path such as "/layers/grad_norm".
bool is_slab_column(std::string_view object) {
  const std::size_t end = object.rfind('/');
  if (end == 0 || end == std::string_view::npos) return false;
  const std::string_view name = object.substr(end + 1);
  return read_in_slabs(object.substr(1, end - 1)) && name != "step" && name != "layer" && name != "kind" &&
         name != "depth" && name != "head";
}

/// A column that is to be read in slabs.
struct SlabColumn {
  std::string group, name;
  Hdf5RowsRequest request;
};

/// Reads the whole rows of one group; a group that the file lacks stays empty. With `notes` the columns that cannot be
/// read are noted there and left out. With `slabs` the columns are noted there and not read.
template <typename Table>
void read_group(const Hdf5File& file, const LogSchema& schema, const char* name, Table& table,
                std::vector<std::string>* notes, std::vector<SlabColumn>* slabs) {
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
    if (slabs == nullptr) values = file.values<Value>(object);
  });
  table.step.resize(rows);
  for_each_column(table, [&](const ColumnSpec& spec, auto& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    const uint64_t size = row_size(schema, name, spec);
    if (slabs != nullptr) {
      const bool there = size > 0 && file.has_dataset(path + spec.name);
      if (there) slabs->push_back({name, spec.name, {path + spec.name, 0, rows, size}});
      return;
    }
    constexpr Value unwritten = std::is_same_v<Value, int64_t> ? Value(-1) : std::numeric_limits<Value>::quiet_NaN();
    values.resize(rows * size, unwritten);
  });
}

/// Everything, or everything but the columns that `slabs` then names.
LogContents read_contents(const std::string& path, LogDamage damage, std::vector<SlabColumn>* slabs) {
  const auto wanted = [](const std::string& object) { return !is_slab_column(object); };
  const Hdf5File file =
      slabs == nullptr ? read_hdf5(path, Hdf5Access::live) : read_hdf5(path, Hdf5Access::live, wanted);
  LogContents log;
  log.path = path;
  log.header = read_header(file);
  log.schema = read_schema(file);
  log.status = read_status(file, log.schema);
  std::vector<std::string>* notes = damage == LogDamage::left_out ? &log.damage : nullptr;
  for_each_group(log.tables, [&](const char* name, auto& table) {
    read_group(file, log.schema, name, table, notes, read_in_slabs(name) ? slabs : nullptr);
  });
  return log;
}

/// Hands the columns on; those rows that cannot be read are NaN and noted in `log`, or refused.
void visit_slabs(LogContents& log, const std::vector<SlabColumn>& columns, LogDamage damage,
                 const std::function<void(const LogContents&, const LogRows&)>& visit) {
  std::vector<Hdf5RowsRequest> requests;
  for (const SlabColumn& column : columns) requests.push_back(column.request);
  std::string noted;
  read_hdf5_rows(log.path, Hdf5Access::live, requests, [&](const Hdf5Rows& rows) {
    const SlabColumn& column = columns[rows.request];
    std::vector<float> nothing;
    if (!rows.damage.empty()) {
      const std::string note = "'" + log.path + "': '" + column.request.object + "' " + rows.damage;
      if (damage == LogDamage::refused) throw Hdf5Error(note);
      if (noted != column.request.object) log.damage.push_back(note);
      noted = column.request.object;
      nothing.assign(rows.count * column.request.row_size, std::numeric_limits<float>::quiet_NaN());
    }
    const std::vector<float>& values = rows.damage.empty() ? rows.values : nothing;
    visit(log, {column.group, column.name, rows.first, rows.count, values});
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
    return read_contents(path, damage, nullptr);
  } catch (const Hdf5Error& error) {
    throw LogError(std::string("cannot read log ") + error.what());
  }
}

LogContents read_log_in_slabs(const std::string& path, LogDamage damage,
                              const std::function<void(const LogContents& log, const LogRows& rows)>& visit) {
  try {
    std::vector<SlabColumn> columns;
    LogContents log = read_contents(path, damage, &columns);
    visit_slabs(log, columns, damage, visit);
    return log;
  } catch (const Hdf5Error& error) {
    throw LogError(std::string("cannot read log ") + error.what());
  }
}

LogContents read_log_outline(const std::string& path, LogDamage damage) {
  try {
    std::vector<SlabColumn> columns;
    return read_contents(path, damage, &columns);
  } catch (const Hdf5Error& error) {
    throw LogError(std::string("cannot read log ") + error.what());
  }
}

void read_log_rows(LogContents& log, const std::string& group, const std::string& column, std::size_t first,
                   std::size_t count, const std::function<void(const LogRows& rows)>& visit) {
  const std::string object = "/" + group + "/" + column;
  SlabColumn wanted{group, column, {object, first, count, 0}};
  for_each_group(log.tables, [&](const char* name, auto& table) {
    if (group != name) return;
    require(first <= table.step.size() && count <= table.step.size() - first, "rows {} to {} of {}, which has {} rows",
            first, first + count, object, table.step.size());
    for_each_column(table, [&](const ColumnSpec& spec, auto&) {
      if (column == spec.name) wanted.request.row_size = row_size(log.schema, name, spec);
    });
  });
  require(wanted.request.row_size > 0 && is_slab_column(object), "{} is no column that is read by rows", object);
  try {
    visit_slabs(log, {wanted}, LogDamage::left_out, [&](const LogContents&, const LogRows& rows) { visit(rows); });
  } catch (const Hdf5Error& error) {
    throw LogError(std::string("cannot read log ") + error.what());
  }
}

std::vector<float> read_log_rows(LogContents& log, const std::string& group, const std::string& column,
                                 std::size_t first, std::size_t count) {
  std::vector<float> out;
  read_log_rows(log, group, column, first, count,
                [&](const LogRows& rows) { out.insert(out.end(), rows.values.begin(), rows.values.end()); });
  return out;
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
