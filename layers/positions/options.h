#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "layers/config.h"

namespace ropewalk {

/// Where a whole number that is 0 gets its value from.
enum class DerivedFrom : uint8_t { nothing, d_head, max_length };

/// An option that is read only where another one, a text, has one of these values. No key: it is always read.
struct ReadWith {
  std::string key;
  std::vector<std::string> values;
};

/// One configuration key that a position scheme declares: `position.KEY`. Schemes that share a key declare it alike.
struct PositionOption {
  std::string key;
  PositionValue default_value;
  std::string help;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  ///< for text options: the values allowed
  DerivedFrom derived_from = DerivedFrom::nothing;
  ReadWith read_with = {};
  bool fixes_parameters = true;  ///< trained parameters belong to its value; false: an evaluation may take another one
};

/// What the options of a scheme have to fit; derived values are filled in.
struct PositionUse {
  PositionConfig position;
  ModelConfig model;  ///< d_head 0: not known, for the heads do not divide d_model
  bool causal = true;
  int64_t context_length = 0;              ///< of training; 0: not known
  std::vector<int64_t> eval_lengths = {};  ///< in tokens
};

/// The use that an architecture makes of its scheme, as far as it goes without the training.
PositionUse position_use(const ArchitectureConfig& config);

/// Something that is wrong, or as a warning doubtful, about these keys ("section.key").
struct PositionFinding {
  std::vector<std::string> keys;
  std::string message;
  bool warning = false;
};
using PositionFindings = std::vector<PositionFinding>;

/// What options come to, for `ropewalk describe`: "rotation", "interleaved pairs, ...".
struct PositionFact {
  std::string name;
  std::string text;
};

/// A scheme as the configuration, the help text and the documentation see it.
struct PositionSchemeInfo {
  std::string name;     ///< the value of position.encoding
  std::string summary;  ///< one line, with the paper
  std::vector<PositionOption> options;
  bool reads_max_length = false;                                            ///< position.max_length, by itself
  bool rotates = false;                                                     ///< queries and keys
  PositionFindings (*check)(const PositionUse& use) = nullptr;              ///< what its options require of each other
  std::vector<PositionFact> (*describe)(const PositionUse& use) = nullptr;  ///< of options that pass the check
  /// Vectors of d_head numbers beside keys and values that each head of a query is multiplied with or given, where it
  /// sees so many keys.
  double (*relative_vectors)(const PositionUse& use, double visible_keys) = nullptr;
  /// Numbers that each block makes of its parameters in a pass, for each offset.
  double (*numbers_an_offset)(const PositionUse& use) = nullptr;
};

/// The schemes in the order of the table in layers/positions/table.cpp.
const std::vector<PositionSchemeInfo>& position_scheme_infos();

/// The scheme of this name, or null.
const PositionSchemeInfo* find_position_scheme(const std::string& name);

/// Fills in the options that derive from others (see PositionOption::derived_from) where they are 0, those of schemes
/// that are not chosen too.
void derive_position_options(PositionConfig& config, int64_t d_head);

/// What the options of the chosen scheme come to; nothing for an unknown one.
std::vector<PositionFact> describe_position(const PositionUse& use);

/// What the chosen scheme finds wrong or doubtful; nothing for an unknown one.
PositionFindings check_position(const PositionUse& use);

/// The warning, where it applies, that an option reaches beyond the offsets that occur in training.
PositionFindings warn_beyond_training(const PositionUse& use, const std::string& key);

/// Every option of every scheme at its default.
PositionConfig default_position_config();

}  // namespace ropewalk
