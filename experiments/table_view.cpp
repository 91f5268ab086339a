#include "experiments/table_view.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "experiments/arguments.h"
#include "train/text.h"

namespace ropewalk {
namespace {

template <typename Table>
void add_views(const LogSchema& schema, const char* group, const Table& table, std::vector<TableView>& out) {
  std::vector<TableView> views;
  for_each_column(table, [&](const ColumnSpec& spec, const auto& values) {
    if (row_size(schema, group, spec) == 0) return;
    auto view = std::find_if(views.begin(), views.end(), [&](const TableView& v) { return v.axes == spec.axes; });
    if (view == views.end()) {
      TableView made{.name = views.empty() ? group : fmt::format("{}.{}", group, spec.name),
                     .step = &table.step,
                     .axes = spec.axes,
                     .outer = axis_length(schema, spec.axes[0]),
                     .inner = axis_length(schema, spec.axes[1])};
      view = views.insert(views.end(), std::move(made));
    }
    view->columns.push_back({spec.name, &values});
  });
  // Groups come in the order in which they are written, which ends with `train`.
  out.insert(out.begin(), views.begin(), views.end());
}

}  // namespace

double TableView::Column::number(uint64_t row, uint64_t cell, uint64_t cells) const {
  return std::visit([&](const auto* v) { return static_cast<double>((*v)[row * cells + cell]); }, values);
}

std::vector<TableView> table_views(const LogContents& log) {
  std::vector<TableView> out;
  for_each_group(log.tables, [&](const char* group, const auto& table) { add_views(log.schema, group, table, out); });
  return out;
}

std::vector<TableView> selected_views(const LogContents& log, const std::string& names) {
  const std::vector<TableView> all = table_views(log);
  std::vector<TableView> out;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = trimmed(std::string_view(names).substr(begin, end - begin));
    begin = end + 1;
    const auto named = [&](const TableView& view) { return view.name == name; };
    const auto found = std::find_if(all.begin(), all.end(), named);
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const TableView& view : all) known.push_back(view.name);
      throw UsageError(fmt::format("--only: '{}' is no table of {}; it has {}", printable(name), printable(log.path),
                                   joined(known)));
    }
    if (std::none_of(out.begin(), out.end(), named)) out.push_back(*found);
  }
  return out;
}

std::string axis_label(const LogSchema& schema, LogAxis axis, uint64_t index) {
  switch (axis) {
    case LogAxis::layer_kind:
      return schema.layer_kinds[index];
    case LogAxis::stem_kind:
      return schema.stem_kinds[index];
    case LogAxis::length:
      return std::to_string(schema.eval_lengths[index]);
    case LogAxis::position:
      return std::to_string(schema.positions[index]);
    case LogAxis::none:
    case LogAxis::layer:
    case LogAxis::depth:
    case LogAxis::head:
      break;
  }
  return std::to_string(index);
}

}  // namespace ropewalk
