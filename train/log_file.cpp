#include "train/log_file.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <type_traits>

#include "train/durable_file.h"

namespace ropewalk {
namespace {

constexpr uint64_t kChunkBytes = 60 * 1024;
constexpr uint64_t kScalarChunkRows = 1024;

template <typename T>
constexpr Hdf5Type type_of() {
  if constexpr (std::is_same_v<T, float>) return Hdf5Type::f32;
  if constexpr (std::is_same_v<T, double>) return Hdf5Type::f64;
  return Hdf5Type::i64;
}

uint64_t chunk_rows(uint64_t row_bytes, uint64_t most_rows) {
  const uint64_t rows = std::clamp<uint64_t>(kChunkBytes / row_bytes, 1, kScalarChunkRows);
  return std::clamp<uint64_t>(most_rows, 1, rows);
}

const char* axis_description(LogAxis axis) {
  switch (axis) {
    case LogAxis::layer:
      return "block, 0 next to the embedding";
    case LogAxis::layer_kind:
      return "module of a block, weight and bias together; block: all of them";
    case LogAxis::stem_kind:
      return "module outside the blocks";
    case LogAxis::depth:
      return "residual stream: 0 enters the first block, n_layers leaves the last";
    case LogAxis::head:
      return "attention head";
    case LogAxis::length:
      return "evaluated sequence length in tokens";
    case LogAxis::position:
      return "first position of the bucket, from the start of the sequence";
    case LogAxis::none:
      break;
  }
  return "";
}

std::vector<int64_t> counted(uint64_t length) {
  std::vector<int64_t> labels(length);
  std::iota(labels.begin(), labels.end(), 0);
  return labels;
}

std::vector<int64_t> as_integers(const std::vector<LogStatus>& status) {
  std::vector<int64_t> values;
  values.reserve(status.size());
  for (const LogStatus s : status) values.push_back(static_cast<int64_t>(s));
  return values;
}

void describe(Hdf5Writer& writer, const std::string& object, const std::string& units, const std::string& long_name) {
  writer.set_attribute(object, "units", units);
  writer.set_attribute(object, "long_name", long_name);
}

Hdf5Writer::Dataset create_scale(Hdf5Writer& writer, const std::string& group, const LogSchema& schema, LogAxis axis) {
  const std::string name = axis_name(axis), object = group + "/" + name;
  const std::vector<uint64_t> shape = {axis_length(schema, axis)};
  Hdf5Writer::Dataset scale = 0;
  switch (axis) {
    case LogAxis::layer_kind:
      scale = writer.create(object, shape, schema.layer_kinds);
      break;
    case LogAxis::stem_kind:
      scale = writer.create(object, shape, schema.stem_kinds);
      break;
    case LogAxis::length:
      scale = writer.create(object, shape, schema.eval_lengths);
      break;
    case LogAxis::position:
      scale = writer.create(object, shape, schema.positions);
      break;
    default:
      scale = writer.create(object, shape, counted(shape[0]));
      break;
  }
  writer.make_scale(scale, name);
  describe(writer, object, "1", axis_description(axis));
  return scale;
}

}  // namespace

template <typename Table>
void LogFile::create_group(const char* name, const Table& table, Group& group, Options options) {
  bool present = false;
  for_each_column(table, [&](const ColumnSpec& spec, const auto&) { present |= row_size(schema_, name, spec) > 0; });
  if (!present) return;

  const std::string path = std::string("/") + name;
  writer_.create_group(path);
  group.step =
      writer_.create_rows({path + "/step", Hdf5Type::i64, {}, chunk_rows(1, options.most_rows), options.compress});
  writer_.make_scale(group.step, "step");
  describe(writer_, path + "/step", "1", "optimizer step");

  std::map<LogAxis, Hdf5Writer::Dataset> scales;
  for_each_column(table, [&](const ColumnSpec& spec, const auto& values) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    const uint64_t size = row_size(schema_, name, spec);
    if (size == 0) return;
    const std::string object = path + "/" + spec.name;
    const Hdf5Writer::Dataset dataset = writer_.create_rows(
        {object, type_of<Value>(), row_shape(schema_, spec),
         size == 1 ? chunk_rows(1, options.most_rows) : chunk_rows(size * sizeof(Value), options.most_rows),
         options.compress});
    describe(writer_, object, spec.units, spec.long_name);
    writer_.attach_scale(dataset, 0, group.step);
    unsigned dimension = 1;
    for (const LogAxis axis : spec.axes) {
      if (axis == LogAxis::none) continue;
      if (scales.count(axis) == 0) scales[axis] = create_scale(writer_, path, schema_, axis);
      writer_.attach_scale(dataset, dimension++, scales[axis]);
    }
    group.columns.push_back(dataset);
  });
}

LogFile::LogFile(const std::string& path, const LogSchema& schema, const LogHeader& header,
                 const std::vector<LogStatus>& status, Options options)
    : schema_(schema), writer_(path) {
  writer_.set_attribute("/", "schema", std::string(kLogSchema));
  writer_.set_attribute("/", "schema_version", kLogSchemaVersion);
  writer_.set_attribute("/", "run_id", header.run_id);
  writer_.set_attribute("/", "config", header.config);
  writer_.set_attribute("/", "command_line", header.command_line);
  writer_.set_attribute("/", "version", header.version);
  writer_.set_attribute("/", "host", header.host);
  writer_.set_attribute("/", "cpu", header.cpu);
  writer_.set_attribute("/", "device", header.device);
  writer_.set_attribute("/", "started", header.started);

  writer_.create_group("/run");
  const std::vector<uint64_t> entries = {schema.entries.size()};
  const Hdf5Writer::Dataset entry = writer_.create("/run/entry", entries, schema.entries);
  writer_.make_scale(entry, "entry");
  describe(writer_, "/run/entry", "1", "seed of the entry");
  status_ = writer_.create("/run/status", entries, as_integers(status));
  describe(writer_, "/run/status", "1", "0 running, 1 finished, 2 interrupted, 3 diverged, 4 failed");
  writer_.attach_scale(status_, 0, entry);

  const LogTables empty;
  std::size_t index = 0;
  for_each_group(empty,
                 [&](const char* name, const auto& table) { create_group(name, table, groups_[index++], options); });
  if (!schema.eval_lengths.empty()) {
    writer_.set_attribute("/eval", "protocol", schema.eval_protocol);
    writer_.set_attribute("/eval", "train_length", schema.train_length);
  }
}

void LogFile::write(const LogTables& tables) {
  std::size_t index = 0;
  for_each_group(tables, [&](const char* name, const auto& table) {
    const Group& group = groups_[index++];
    const uint64_t rows = table.step.size();
    if (rows == 0 || group.columns.empty()) return;
    std::size_t column = 0;
    for_each_column(table, [&](const ColumnSpec& spec, const auto& values) {
      if (row_size(schema_, name, spec) > 0) writer_.append(group.columns[column++], rows, values.data());
    });
    for (const Hdf5Writer::Dataset dataset : group.columns) writer_.flush(dataset);
    writer_.append(group.step, rows, table.step.data());
    writer_.flush(group.step);
  });
  writer_.flush_file();
}

void LogFile::write_status(const std::vector<LogStatus>& status) {
  writer_.overwrite(status_, as_integers(status).data());
  writer_.flush(status_);
  writer_.flush_file();
}

void write_log(const std::string& path, const LogSchema& schema, const LogHeader& header,
               const std::vector<LogStatus>& status, const LogTables& tables) {
  uint64_t most_rows = 0;
  for_each_group(tables,
                 [&](const char*, const auto& table) { most_rows = std::max<uint64_t>(most_rows, table.step.size()); });
  const std::string temporary = path + ".tmp";
  ::unlink(temporary.c_str());
  try {
    LogFile file(temporary, schema, header, status, {.compress = true, .most_rows = most_rows});
    file.write(tables);
    file.close();
    rename_durably(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace ropewalk
