#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/table_view.h"

namespace ropewalk {

/// A table as CSV in long form: a header, then a line for each step and place on the other axes ("step,layer,kind,
/// grad_norm,param_norm,update_ratio"), called as in the log. Numbers are the shortest that read back as the same
/// float or double; what is not finite is nan, inf or -inf. Handed to `write` in pieces.
void write_csv(const LogSchema& schema, const TableView& table, const std::function<void(std::string_view)>& write);

/// Writes NAME.csv into `directory`, which is made if need be, for each table; a file appears whole or not at all and
/// replaces one of its name. Returns their paths. Throws std::system_error.
std::vector<std::string> export_csv(const LogContents& log, const std::vector<TableView>& tables,
                                    const std::string& directory);

}  // namespace ropewalk
