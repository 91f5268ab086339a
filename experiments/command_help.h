#pragma once

#include <span>
#include <string>
#include <string_view>

#include "experiments/arguments.h"

namespace ropewalk {

/// One `ropewalk NAME`, as help shows it and its arguments are read.
struct CommandInfo {
  std::string name;
  std::string usage;    ///< what follows the name
  std::string summary;  ///< one line
  std::string text;     ///< what `--help` says besides
  std::vector<Flag> flags = {};
  std::size_t least_files = 1;
  std::size_t most_files = 1;
  bool takes_overrides = false;
};

const std::vector<CommandInfo>& command_infos();

/// nullptr for an unknown name.
const CommandInfo* find_command(std::string_view name);

/// `ropewalk --help`
std::string overview_help();

/// `ropewalk NAME --help`
std::string command_help(const CommandInfo& command);

}  // namespace ropewalk
