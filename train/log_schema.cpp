#include "train/log_schema.h"

#include <string_view>

namespace ropewalk {

const char* to_string(LogStatus status) {
  switch (status) {
    case LogStatus::running:
      return "running";
    case LogStatus::finished:
      return "finished";
    case LogStatus::interrupted:
      return "interrupted";
    case LogStatus::diverged:
      return "diverged";
    case LogStatus::failed:
      return "failed";
  }
  return "unknown";
}

uint64_t axis_length(const LogSchema& schema, LogAxis axis) {
  switch (axis) {
    case LogAxis::none:
      return 1;
    case LogAxis::layer:
      return static_cast<uint64_t>(schema.n_layers);
    case LogAxis::layer_kind:
      return schema.layer_kinds.size();
    case LogAxis::stem_kind:
      return schema.stem_kinds.size();
    case LogAxis::depth:
      return schema.n_layers == 0 ? 0 : static_cast<uint64_t>(schema.n_layers) + 1;
    case LogAxis::head:
      return static_cast<uint64_t>(schema.n_heads);
    case LogAxis::length:
      return schema.eval_lengths.size();
    case LogAxis::position:
      return schema.positions.size();
  }
  return 0;
}

const char* axis_name(LogAxis axis) {
  switch (axis) {
    case LogAxis::none:
      return "";
    case LogAxis::layer:
      return "layer";
    case LogAxis::layer_kind:
    case LogAxis::stem_kind:
      return "kind";
    case LogAxis::depth:
      return "depth";
    case LogAxis::head:
      return "head";
    case LogAxis::length:
      return "length";
    case LogAxis::position:
      return "position";
  }
  return "";
}

std::vector<uint64_t> row_shape(const LogSchema& schema, const ColumnSpec& column) {
  std::vector<uint64_t> shape;
  for (const LogAxis axis : column.axes) {
    if (axis != LogAxis::none) shape.push_back(axis_length(schema, axis));
  }
  return shape;
}

uint64_t row_size(const LogSchema& schema, const char* group, const ColumnSpec& column) {
  const std::string_view name = column.name;
  const bool task_only = group == std::string_view("eval") && (name == "accuracy" || name == "exact_match");
  if (task_only && !schema.task) return 0;
  return axis_length(schema, column.axes[0]) * axis_length(schema, column.axes[1]);
}

}  // namespace ropewalk
