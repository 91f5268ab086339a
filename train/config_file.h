#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ropewalk {

/// Where a value came from.
struct Origin {
  enum class Kind : unsigned char { built_in, file, command_line };
  Kind kind = Kind::built_in;
  std::string file = {};  ///< as the user named it; of an included file, beside the file that includes it
  int line = 0;           ///< from 1; 0: the file as a whole

  /// "default", "run.ini:3" or "command line".
  std::string text() const;
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// "run.ini:3: error: MESSAGE"
std::string error_at(const Origin& origin, std::string_view message);

/// One `key = value` line under its section, as written: no key is known to be right yet.
struct Entry {
  std::string section;  ///< "" before the first section
  std::string key;
  std::string value;
  Origin origin;

  /// section.key, or the key alone before the first section.
  std::string full_key() const { return section.empty() ? key : section + "." + key; }
};

/// A `[section]` line. A section without entries can mean something too (an empty sweep variant).
struct SectionHeader {
  std::string name;
  Origin origin;
};

/// What a file and its includes hold, in the order in which values apply: a later entry replaces an earlier one.
struct ConfigLines {
  std::vector<Entry> entries;
  std::vector<SectionHeader> sections;
};

/// Reads an INI file and what it includes.
///
/// `#` or `;` starts a comment at a line's start or after a blank. A value that starts with `"` ends at the next `"`
/// (`\"` and `\\` stand for themselves), so that it may hold comment characters and blanks at its ends.
/// `include = FILE`, before the first section, takes the lines of a file beside this one. A byte order mark and CRLF
/// are read over. Refused, each with its place, and appended to `errors`: a file that is missing, a directory, larger
/// than 1 MiB or not UTF-8 text; an include cycle; a line that is no section, comment or `key = value`; a key given
/// twice in one file (but for `include` and the rules of [exclude]).
ConfigLines read_config_file(const std::string& path, std::vector<std::string>& errors);

/// The same for text that is in memory already; `name` stands for the file in messages. Includes are refused.
ConfigLines read_config_text(std::string_view text, const std::string& name, std::vector<std::string>& errors);

/// `section.key=value` words of the command line, in order.
std::vector<Entry> read_overrides(const std::vector<std::string>& words, std::vector<std::string>& errors);

/// `value` as it must stand in a file to be read back as it is: quoted where it has to be.
std::string quoted_for_file(const std::string& value);

}  // namespace ropewalk
