#include "experiments/export_events.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "experiments/arguments.h"
#include "experiments/event_file.h"
#include "train/durable_file.h"
#include "train/text.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

std::string place_text(const LogSchema& schema, LogAxis axis, uint64_t index) {
  const std::string label = axis_label(schema, axis, index);
  const bool counts = axis == LogAxis::layer || axis == LogAxis::depth || axis == LogAxis::head;
  if (!counts) return label;
  const std::size_t width = std::max<std::size_t>(std::to_string(axis_length(schema, axis) - 1).size(), 2);
  return std::string(width - std::min(width, label.size()), '0') + label;
}

/// One curve: a cell of a column.
struct Curve {
  std::string tag;
  std::size_t column = 0;
  uint64_t cell = 0;
};

bool has_value(const TableView& table, const TableView::Column& column, uint64_t cell) {
  for (uint64_t row = 0; row < table.rows(); ++row) {
    if (!std::isnan(column.number(row, cell, table.cells()))) return true;
  }
  return false;
}

/// The curves of a table and the row that comes next.
struct Source {
  const TableView* table = nullptr;
  std::vector<Curve> curves = {};
  uint64_t row = 0;

  bool done() const { return row >= table->rows(); }
  int64_t step() const { return (*table->step)[row]; }
};

Source source_of(const LogSchema& schema, const TableView& table) {
  Source out{.table = &table};
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    for (uint64_t cell = 0; cell < table.cells(); ++cell) {
      if (!has_value(table, table.columns[column], cell)) continue;
      out.curves.push_back({scalar_tag(schema, table, table.columns[column].name, cell), column, cell});
    }
  }
  return out;
}

/// Seconds of training until the last training row at or before `step`.
double training_time(const TrainTable& train, int64_t step) {
  const auto after = std::upper_bound(train.step.begin(), train.step.end(), step);
  if (after == train.step.begin()) return 0;
  const double time = train.wall_time[static_cast<std::size_t>(after - train.step.begin()) - 1];
  return std::isfinite(time) ? time : 0;
}

/// A host's name as part of a file's.
std::string host_part(const std::string& host) {
  std::string out;
  for (const char c : host.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    out += plain ? c : '_';
  }
  return out.empty() ? "host" : out;
}

/// FNV-1a: a few letters that tell runs apart which began in the same second.
uint32_t fingerprint(const std::string& text) {
  uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace

int64_t unix_seconds(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  char z = 0;
  const int read =
      std::sscanf(text.c_str(), "%4d-%2u-%2uT%2u:%2u:%2u%c", &year, &month, &day, &hour, &minute, &second, &z);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (read != 7 || z != 'Z' || !date.ok() || hour > 23 || minute > 59 || second > 60) return 0;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return int64_t{days} * 86400 + int64_t{hour} * 3600 + int64_t{minute} * 60 + second;
}

std::string scalar_tag(const LogSchema& schema, const TableView& table, const char* column, uint64_t cell) {
  std::string tag = table.name.substr(0, table.name.find('.')) + "/" + column;
  const std::array<uint64_t, 2> index = {cell / table.inner, cell % table.inner};
  const auto place = [&](std::size_t axis) { return place_text(schema, table.axes[axis], index[axis]); };
  if (table.axes[0] == LogAxis::none) return tag;
  if (table.axes[0] == LogAxis::length) tag += "@" + place(0);
  if (table.axes[1] == LogAxis::layer_kind) tag += "/" + place(1);
  if (table.axes[0] != LogAxis::length) tag += "/" + place(0);
  if (table.axes[1] != LogAxis::none && table.axes[1] != LogAxis::layer_kind) tag += "/" + place(1);
  return tag;
}

void write_events(const LogContents& log, const std::vector<TableView>& tables,
                  const std::function<void(std::string_view)>& write) {
  const auto start = static_cast<double>(unix_seconds(log.header.started));
  std::vector<Source> sources;
  for (const TableView& table : tables) sources.push_back(source_of(log.schema, table));
  std::string text = record_of(version_event(start));
  std::vector<TaggedScalar> scalars;
  while (true) {
    Source* next = nullptr;
    for (Source& source : sources) {
      if (!source.done() && (next == nullptr || source.step() < next->step())) next = &source;
    }
    if (next == nullptr) break;
    scalars.clear();
    for (const Curve& curve : next->curves) {
      const double value = next->table->columns[curve.column].number(next->row, curve.cell, next->table->cells());
      scalars.push_back({curve.tag, static_cast<float>(value)});
    }
    text += record_of(scalar_event(start + training_time(log.tables.train, next->step()), next->step(), scalars));
    ++next->row;
    if (text.size() < kPieceBytes) continue;
    write(text);
    text.clear();
  }
  write(text);
}

std::string export_events(const LogContents& log, const std::vector<TableView>& tables, const std::string& directory) {
  fs::create_directories(directory);
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}.{:08x}", unix_seconds(log.header.started), host_part(log.header.host),
                  fingerprint(log.header.run_id + "\n" + log.header.config));
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string other = entry.path().filename().string();
    if (other.find("tfevents") == std::string::npos || other.starts_with(name)) continue;
    throw UsageError(
        fmt::format("--tensorboard {}: holds the events of another run ({}), and TensorBoard takes a "
                    "directory for a run; give this one a directory of its own",
                    printable(directory), printable(other)));
  }
  const std::string path = (fs::path(directory) / name).string();
  DurableFile file(path);
  write_events(log, tables, [&](std::string_view piece) { file.write(piece.data(), piece.size()); });
  file.commit();
  return path;
}

}  // namespace ropewalk
