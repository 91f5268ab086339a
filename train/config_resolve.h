#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config.h"
#include "train/config_error.h"
#include "train/config_file.h"
#include "train/options.h"

namespace ropewalk {

/// What a configuration is read for decides which checks apply.
enum class Purpose : uint8_t {
  train,  ///< everything must fit together, data included
  probe,  ///< as train, but probe.inputs = normal needs no data
  model,  ///< an architecture by itself: nothing of data and training is checked
};

/// A configuration in which every derived value is filled in.
struct ResolvedConfig {
  Config config;
  std::map<std::string, Origin> origins;  ///< of the keys that were given; all others are defaults
  std::vector<std::string> warnings;      ///< "run.ini:3: warning: ..."

  Origin origin(const std::string& key) const {
    const auto found = origins.find(key);
    return found == origins.end() ? Origin{} : found->second;
  }
};

/// Reads `file` ("" for none), applies the `section.key=value` overrides, fills in what derives and checks everything.
/// Throws ConfigError with all that is wrong.
ResolvedConfig load_config(const std::string& file, const std::vector<std::string>& overrides,
                           Purpose purpose = Purpose::train, const OptionTable& table = option_table());

/// The configuration that a text holds by itself, as logs, checkpoints and conformance files store it; checked as for
/// Purpose::model. `origin` stands for the file in messages. Throws ConfigError.
Config parse_config_text(std::string_view text, const std::string& origin, const OptionTable& table = option_table());

/// Fills in what derives from other keys by itself: the sizes of the model, max_length (the training context), options
/// of position schemes, min_lr, warmup_steps, lengths and tail of the evaluation. What is given already stays, so that
/// resolving twice changes nothing.
void resolve(Config& config);

/// Entries over the defaults before anything is filled in or checked across keys.
struct AppliedEntries {
  Config config;
  std::map<std::string, Origin> origins;
  Origin subject = {};  ///< the file as a whole, or the command line: the place of errors about keys at their defaults
  std::vector<std::string> refused = {};  ///< known keys whose value was refused: no cross check is to speak of them
};

/// Looks up keys and types values; a later entry replaces an earlier one. What is wrong goes to `errors`. The default
/// of attention.causal follows from model.arch.
AppliedEntries apply_entries(const std::vector<Entry>& entries, const Origin& subject, std::vector<std::string>& errors,
                             const OptionTable& table);

/// resolve() and all cross checks; what is wrong goes to `errors`. A run that begins with another's parameters
/// (train.from) takes position.max_length from that one's config.ini, where it is not given.
ResolvedConfig finish(const AppliedEntries& applied, Purpose purpose, std::vector<std::string>& errors);

/// Is this a section of a sweep file: [sweep], [grid], [exclude] or [variant NAME]?
bool is_sweep_section(std::string_view section);

/// The configuration as a file that loads as it stands and gives the same Config. Keys of position encodings other
/// than the chosen one are left out, unless one differs from its default. With origins each line ends in a comment:
/// `default`, `run.ini:3` or `command line`.
std::string print_config(const ResolvedConfig& resolved, bool with_origins, const OptionTable& table = option_table());

/// The value of one key, as print_config() writes it without quotes. Throws std::invalid_argument for an unknown key.
std::string config_value(const Config& config, const std::string& key, const OptionTable& table = option_table());

/// A key whose values differ.
struct KeyDifference {
  std::string key;   ///< "model.n_layers"
  std::string text;  ///< "model.n_layers: 4 against 6"
  friend bool operator==(const KeyDifference&, const KeyDifference&) = default;
};

/// Each key of these sections (all, if none is named) whose values differ; options of encodings that neither uses are
/// not compared.
std::vector<KeyDifference> differing_keys(const Config& a, const Config& b, std::span<const std::string> sections = {},
                                          const OptionTable& table = option_table());

}  // namespace ropewalk
