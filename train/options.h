#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "layers/positions/options.h"
#include "train/config.h"

namespace ropewalk {

/// The value of one configuration key. A choice is a string.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

enum class OptionType : uint8_t { boolean, integer, real, text, choice, integer_list };

/// What a number (or each number of a list) may be.
struct Limits {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  ///< the minimum itself is not allowed
  bool below_maximum = false;  ///< the maximum itself is not allowed
};

/// One configuration key: its type, what it may be, and the field of Config that holds it.
struct Option {
  std::string key;  ///< "section.key"
  OptionType type = OptionType::text;
  std::string help = {};
  std::string default_text = {};  ///< as help shows it: a value, or the rule that gives one
  Limits limits = {};
  std::vector<std::string> choices = {};
  std::vector<std::string> schemes = {};  ///< the position encodings that read it; empty: all
  ReadWith read_with = {};                ///< of a position encoding's options: what the reading depends on
  bool fixes_parameters = true;           ///< of the same: does another value need other trained parameters?
  std::function<OptionValue(const Config&)> get = {};
  std::function<void(Config&, const OptionValue&)> set = {};

  std::string section() const { return key.substr(0, key.find('.')); }
  std::string name() const { return key.substr(key.find('.') + 1); }

  /// Does a model with this encoding read the key?
  bool applies_to(const std::string& encoding) const;
};

/// All configuration keys. Files, command line, help and documentation are driven by this table alone.
class OptionTable {
 public:
  /// The table with the encodings and the options of these position schemes.
  explicit OptionTable(std::span<const PositionSchemeInfo> schemes);

  const std::vector<Option>& options() const { return options_; }
  const Option* find(std::string_view key) const;

  /// The nearest key to an unknown one; "" where none is near.
  std::string suggestion(std::string_view unknown_key) const;

  /// Every key at its default; what derives from other keys is not filled in (see resolve()).
  const Config& defaults() const { return defaults_; }

 private:
  std::vector<Option> options_;
  std::vector<std::string> keys_;
  Config defaults_;
};

/// The table over position_scheme_infos().
const OptionTable& option_table();

/// The value that `text` stands for. Booleans: true false on off yes no 1 0. Integers: also 5_000 and 5e3, never 3.5.
/// Lists: commas, and ranges as 1..20. Throws std::invalid_argument that says what the key would take.
OptionValue parse_value(const Option& option, std::string_view text);

/// The text that parse_value() reads as `value`; reals in the fewest digits that give the same double.
std::string format_value(const OptionValue& value);

/// Does `text` list several values (by a comma or a..b) where the key takes one? A sweep runs such lists.
bool lists_values(const Option& option, std::string_view text);

/// The values of such a list, each checked and in canonical form. Throws std::invalid_argument.
std::vector<std::string> parse_list(const Option& option, std::string_view text);

/// "at least 1", "between 0 and 1, 1 excluded", "one of pre, post"; "" where anything goes.
std::string limits_text(const Option& option);

/// Every key with its type, default, choices and meaning, for a terminal.
std::string options_help(const OptionTable& table);

/// The same as Markdown, one table a section: docs/configuration.md.
std::string options_markdown(const OptionTable& table);

}  // namespace ropewalk
