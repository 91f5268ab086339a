#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ropewalk {

/// The command line asks for something that there is not; the command exits with 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One `--name` of a command.
struct Flag {
  std::string name;          ///< with its dashes: "--jobs"
  std::string value = {};    ///< what help calls its value; "" for a switch
  std::string help = {};     ///< one sentence
  std::string shorter = {};  ///< "-o"
  /// Its value may be any text, also none and with dashes in front, and it may be given several times.
  bool is_text = false;
};

/// What stands on the command line after the name of the command.
struct Arguments {
  std::map<std::string, std::string> flags;                     ///< by full name; "" as the value of a switch
  std::vector<std::string> files;                               ///< words that are neither, in order
  std::vector<std::string> overrides;                           ///< section.key=value words, in order
  std::vector<std::pair<std::string, std::string>> texts = {};  ///< the is_text flags and their values, in order

  bool has(const std::string& flag) const { return flags.count(flag) > 0; }
  std::string value(const std::string& flag, const std::string& otherwise = "") const;
};

/// Sorts the words of `command` into flags, files and overrides. Flags may stand anywhere, as `--name value` or
/// `--name=value`; `--` ends them. A word is an override if only letters, digits, '_', '-' and '.' stand before its
/// first '='; a file of such a name is given as ./NAME. Throws UsageError for an unknown flag, with the nearest one,
/// for a missing or superfluous value, and for a flag given twice.
Arguments parse_arguments(const std::string& command, const std::vector<Flag>& flags,
                          const std::vector<std::string>& words);

/// The value of a flag as a whole number within the limits. Throws UsageError that names them.
int64_t whole_number(const Arguments& arguments, const std::string& flag, int64_t otherwise, int64_t minimum,
                     int64_t maximum);

/// The same for a number that may have a fraction.
double real_number(const Arguments& arguments, const std::string& flag, double otherwise, double minimum,
                   double maximum);

}  // namespace ropewalk
