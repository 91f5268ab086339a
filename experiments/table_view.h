#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "train/read_log.h"

namespace ropewalk {

/// The columns of a group of a log that have the same dimensions; it points into the log.
struct TableView {
  struct Column {
    const char* name = nullptr;
    std::variant<const std::vector<float>*, const std::vector<double>*, const std::vector<int64_t>*> values;

    /// A value of row `row`, at `cell` of its cells. Of the integers in a log, doubles hold those below 2^53.
    double number(uint64_t row, uint64_t cell, uint64_t cells) const;
  };

  std::string name;  ///< of the group, or "eval.loss_by_position" where a column has dimensions of its own
  const std::vector<int64_t>* step = nullptr;
  std::array<LogAxis, 2> axes = {};  ///< beside `step`
  uint64_t outer = 1, inner = 1;     ///< lengths of the two; 1 for none
  std::vector<Column> columns;

  uint64_t rows() const { return step->size(); }
  uint64_t cells() const { return outer * inner; }
};

/// Everything a log holds by step: train, layers, stem, residual, attention, eval, eval.loss_by_position. What its
/// schema leaves out is missing; a table without rows yet is there.
std::vector<TableView> table_views(const LogContents& log);

/// Those of these names ("train,eval"). Throws UsageError for a name that this log has not, with those it has.
std::vector<TableView> selected_views(const LogContents& log, const std::string& names);

/// The coordinate of a place on an axis: a kind, a length, the first position of a bucket, or the index itself.
std::string axis_label(const LogSchema& schema, LogAxis axis, uint64_t index);

}  // namespace ropewalk
