#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/ops/rope_row.h"
#include "layers/positions/options.h"

namespace ropewalk {

/// What sets the frequencies of a rotary embedding (see rope_frequencies).
struct RopeSettings {
  int64_t dims = 0;  ///< columns that turn, even
  double theta = 10000.0;
  std::string scaling = "none";
  double factor = 1.0;
  int64_t original_context = 0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t length = 0;             ///< tokens in the pass, for dynamic_ntk
  bool paper_ramp = false;        ///< yarn: the ramp of the paper in place of that of the code
  double zero_low = 0.0;          ///< share of the pairs that do not turn, the slowest
  double attention_factor = 0.0;  ///< 0: what the scaling gives
};

/// Angle of pair m at position p = p * inverse[m]; q and k are both multiplied by attention_factor.
struct RopeFrequencies {
  std::vector<double> inverse;
  double attention_factor = 1.0;
};

/// theta^(-2m/dims) (Su et al. 2021), changed for longer contexts by
///   linear       position interpolation: divided by the factor (Chen et al. 2023)
///   ntk          theta * factor^(dims / (dims - 2))
///   dynamic_ntk  the same with factor * length / original - (factor - 1), from the original context on
///   yarn         interpolated where a pair turns fewer than beta_slow times in the original context, kept where it
///                turns more than beta_fast times, a ramp between (see YarnRamp); attention factor 0.1 ln(factor) + 1
///                (Peng et al. 2023)
///   llama3       interpolated above, kept below a wavelength, smooth between (Llama 3.1)
/// and then, of dims/2 pairs, 0 for all but the first floor((1 - zero_low) dims/2) (p-RoPE, Barbero et al. 2024).
RopeFrequencies rope_frequencies(const RopeSettings& settings);

/// The pairs between which yarn goes from kept to interpolated. Pair index(r) = dims ln(original / (2 pi r)) / (2 ln
/// theta) turns r times in the original context.
///   code   linear in the index of the pair from floor(index(beta_fast)) to ceil(index(beta_slow)), within 0 and
///          dims - 1 (the published code, and all that follow it)
///   paper  linear in the number of turns from beta_fast to beta_slow; low and high are where these lie, which may be
///          outside of what there is
struct YarnRamp {
  double low = 0.0;   ///< pairs up to it are kept
  double high = 0.0;  ///< pairs from it on are interpolated
};
YarnRamp yarn_ramp(const RopeSettings& settings);

/// What the configuration of the scheme `rope` says, with derived values filled in.
RopeSettings rope_settings(const PositionConfig& config);

/// position.rope_pairing
RopePairing rope_pairing(const PositionConfig& config);

/// The options of every rotary scheme: rope_theta, rope_pairing, rope_dims.
std::vector<PositionOption> rotary_options();

/// Does rope_dims fit the heads? Nothing is found where their width is not known.
PositionFindings check_rotary_width(const PositionUse& use);

/// "interleaved pairs (2i, 2i + 1), base 10000, 16 of 32 columns paired"
std::string rotation_text(const PositionUse& use);

}  // namespace ropewalk
