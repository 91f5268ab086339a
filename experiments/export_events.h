#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/table_view.h"

namespace ropewalk {

/// The tag under which TensorBoard shows a cell of a column: "train/loss", "eval/loss@128",
/// "eval/loss_by_position@128/64", "layers/grad_norm/attention.query/03", "residual/rms/04". Numbers of layers, depths
/// and heads have leading zeros, so that tags stand in their order; a kind comes before its layer, so that its layers
/// stand together.
std::string scalar_tag(const LogSchema& schema, const TableView& table, const char* column, uint64_t cell);

/// The tables as records of an event file, ascending by step, handed to `write` in pieces. Cells that are NaN at every
/// step (a kind that a layer has not) are left out. A row's time is the run's start and the training time at its step.
void write_events(const LogContents& log, const std::vector<TableView>& tables,
                  const std::function<void(std::string_view)>& write);

/// Writes the event file of a run into `directory`, which is made if need be, whole or not at all, and returns its
/// path. Its name depends on the run alone, so that a later export of the same run replaces it. Throws UsageError if
/// the directory has event files of another: TensorBoard would show both as one run. Throws std::system_error.
std::string export_events(const LogContents& log, const std::vector<TableView>& tables, const std::string& directory);

/// Seconds since 1970 of "2026-11-29T12:48:00Z"; 0 where the text is no such time.
int64_t unix_seconds(const std::string& text);

}  // namespace ropewalk
