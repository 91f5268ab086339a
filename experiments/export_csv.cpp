#include "experiments/export_csv.h"

#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "experiments/csv.h"
#include "train/durable_file.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

/// The fields of an axis that come before those of the columns, each with its comma; one empty text for no axis.
std::vector<std::string> label_fields(const LogSchema& schema, LogAxis axis, uint64_t length) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < length; ++i) {
    out.push_back(axis == LogAxis::none ? "" : "," + csv_field(axis_label(schema, axis, i)));
  }
  return out;
}

void append_number(std::string& out, const TableView::Column& column, uint64_t at) {
  std::visit(
      [&](const auto* values) {
        const auto value = (*values)[at];
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(value)>>) {
          if (value != value) {
            out += ",nan";
            return;
          }
        }
        fmt::format_to(std::back_inserter(out), ",{}", value);
      },
      column.values);
}

}  // namespace

void write_csv(const LogSchema& schema, const TableView& table, const std::function<void(std::string_view)>& write) {
  std::string text = "step";
  for (const LogAxis axis : table.axes) {
    if (axis != LogAxis::none) text += fmt::format(",{}", axis_name(axis));
  }
  for (const TableView::Column& column : table.columns) text += fmt::format(",{}", column.name);
  text += '\n';
  const std::vector<std::string> outer = label_fields(schema, table.axes[0], table.outer);
  const std::vector<std::string> inner = label_fields(schema, table.axes[1], table.inner);
  for (uint64_t row = 0; row < table.rows(); ++row) {
    const std::string step = std::to_string((*table.step)[row]);
    for (uint64_t cell = 0; cell < table.cells(); ++cell) {
      text.append(step).append(outer[cell / table.inner]).append(inner[cell % table.inner]);
      for (const TableView::Column& column : table.columns) append_number(text, column, row * table.cells() + cell);
      text += '\n';
      if (text.size() < kPieceBytes) continue;
      write(text);
      text.clear();
    }
  }
  write(text);
}

std::vector<std::string> export_csv(const LogContents& log, const std::vector<TableView>& tables,
                                    const std::string& directory) {
  std::filesystem::create_directories(directory);
  std::vector<std::string> paths;
  for (const TableView& table : tables) {
    const std::string path = (std::filesystem::path(directory) / (table.name + ".csv")).string();
    DurableFile file(path);
    write_csv(log.schema, table, [&](std::string_view piece) { file.write(piece.data(), piece.size()); });
    file.commit();
    paths.push_back(path);
  }
  return paths;
}

}  // namespace ropewalk
