#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  int64_t length = 0;  ///< tokens in the pass, for dynamic_ntk
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
///                turns more than beta_fast times, a ramp over the pair's index between; attention factor
///                0.1 ln(factor) + 1 (Peng et al. 2023, the ramp of the published code)
///   llama3       interpolated above, kept below a wavelength, smooth between (Llama 3.1)
RopeFrequencies rope_frequencies(const RopeSettings& settings);

}  // namespace ropewalk
