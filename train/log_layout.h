#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/parameter.h"

namespace ropewalk {

/// Where each parameter belongs in the groups /layers and /stem of the log. A module's weight and bias go together. The
/// two stacks of an encoder_decoder share the layers; kinds of its encoder begin with "encoder." and stand first, as
/// they are computed.
struct LogLayout {
  struct Place {
    int64_t layer = -1;  ///< -1: outside the blocks
    int64_t kind = -1;   ///< of `layer_kinds`, or of `stem_kinds` outside the blocks
  };
  /// attention_norm, attention.query, ..., ffn.down, block: all of a layer; of an encoder_decoder
  /// encoder.attention_norm,
  /// ..., encoder.block before them
  std::vector<std::string> layer_kinds;
  /// token_embedding, position_embedding, relative_bias, final_norm, lm_head; of an encoder_decoder, after the first,
  /// encoder.position_embedding, encoder.relative_bias and encoder.final_norm
  std::vector<std::string> stem_kinds;
  std::vector<int64_t> totals;      ///< [kind]: the kind that holds all of the block, itself for that one
  std::vector<Place> places;        ///< one a parameter
  std::vector<bool> layer_present;  ///< [layer, kind]: some parameter belongs there
  std::vector<bool> stem_present;
  int64_t n_layers = 0;

  std::size_t cells() const { return static_cast<std::size_t>(n_layers) * layer_kinds.size(); }
};

/// Layout for the dotted names of a model's parameters.
LogLayout make_log_layout(const ParameterSet& parameters, int64_t n_layers);

/// Norms from squared norms of the parameters: [layer, kind], in the kinds called block those of whole blocks, and
/// [stem kind]; NaN where no parameter belongs.
void layer_norms(const LogLayout& layout, std::span<const double> squared, std::span<float> layers);
void stem_norms(const LogLayout& layout, std::span<const double> squared, std::span<float> stem);

}  // namespace ropewalk
