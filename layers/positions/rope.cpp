#include "layers/positions/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/error.h"
#include "layers/positions/scheme.h"

namespace ropewalk {
namespace {

std::vector<double> spectrum(double theta, int64_t dims) {
  std::vector<double> inverse;
  for (int64_t i = 0; i < dims; i += 2) {
    inverse.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(dims)));
  }
  return inverse;
}

std::vector<double> ntk(double theta, int64_t dims, double factor) {
  if (dims <= 2) return spectrum(theta, dims);  // a single pair has frequency 1 whatever theta is
  const auto n = static_cast<double>(dims);
  return spectrum(theta * std::pow(factor, n / (n - 2)), dims);
}

void yarn(const RopeSettings& s, std::vector<double>& inverse) {
  const auto dims = static_cast<double>(s.dims);
  const auto index_of = [&](double rotations) {
    return dims * std::log(static_cast<double>(s.original_context) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(s.theta));
  };
  const double low = std::max(std::floor(index_of(s.beta_fast)), 0.0);
  const double high = std::min(std::ceil(index_of(s.beta_slow)), dims - 1);
  for (std::size_t m = 0; m < inverse.size(); ++m) {
    const double ramp = std::clamp((static_cast<double>(m) - low) / std::max(high - low, 0.001), 0.0, 1.0);
    inverse[m] = inverse[m] / s.factor * ramp + inverse[m] * (1 - ramp);
  }
}

void llama3(const RopeSettings& s, std::vector<double>& inverse) {
  const auto context = static_cast<double>(s.original_context);
  for (double& frequency : inverse) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > context / s.low_freq_factor) {
      frequency /= s.factor;
    } else if (wavelength >= context / s.high_freq_factor) {
      const double smooth = (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
      frequency = (1 - smooth) * frequency / s.factor + smooth * frequency;
    }
  }
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSettings& s) {
  RopeFrequencies out{.inverse = spectrum(s.theta, s.dims)};
  if (s.scaling == "none") return out;
  if (s.scaling == "linear") {
    for (double& frequency : out.inverse) frequency /= s.factor;
  } else if (s.scaling == "ntk") {
    out.inverse = ntk(s.theta, s.dims, s.factor);
  } else if (s.scaling == "dynamic_ntk") {
    if (s.length > s.original_context) {
      const double ratio = static_cast<double>(s.length) / static_cast<double>(s.original_context);
      out.inverse = ntk(s.theta, s.dims, s.factor * ratio - (s.factor - 1));
    }
  } else if (s.scaling == "yarn") {
    yarn(s, out.inverse);
    out.attention_factor = s.factor > 1 ? 0.1 * std::log(s.factor) + 1 : 1.0;
  } else if (s.scaling == "llama3") {
    llama3(s, out.inverse);
  } else {
    fail("position.rope_scaling = {} is not a scaling of this version", s.scaling);
  }
  return out;
}

namespace {

/// Queries and keys turned by angles that grow with the position, so that scores depend on the offset.
class Rope : public PositionScheme {
 public:
  Rope(const PositionConfig& config, const PositionSizes& sizes) : dtype_(sizes.dtype) {
    const int64_t dims = config.integer("rope_dims");
    const int64_t context = config.integer("rope_original_context");
    settings_ = {.dims = dims > 0 ? dims : sizes.d_head,
                 .theta = config.real("rope_theta"),
                 .scaling = config.text("rope_scaling"),
                 .factor = config.real("rope_factor"),
                 .original_context = context > 0 ? context : config.max_length,
                 .beta_fast = config.real("yarn_beta_fast"),
                 .beta_slow = config.real("yarn_beta_slow"),
                 .low_freq_factor = config.real("llama3_low_freq_factor"),
                 .high_freq_factor = config.real("llama3_high_freq_factor")};
    pairing_ = config.text("rope_pairing") == "split_half" ? RopePairing::split_half : RopePairing::interleaved;
  }

  void prepare(int64_t length) override {
    const bool by_length = settings_.scaling == "dynamic_ntk";
    const bool fits = table_.cos.shape.rank() == 2 && table_.cos.shape[0] >= length;
    if (fits && (!by_length || settings_.length == length)) return;
    settings_.length = length;
    const RopeFrequencies frequencies = rope_frequencies(settings_);
    table_ = make_rotary_table(frequencies.inverse, frequencies.attention_factor, 0, length, pairing_, dtype_);
  }
  const RotaryTable* rotation() const override { return &table_; }

 private:
  RopeSettings settings_;
  RopePairing pairing_ = RopePairing::interleaved;
  DType dtype_;
  RotaryTable table_;
};

}  // namespace

PositionSchemeRow rope_scheme() {
  return {.info = {.name = "rope",
                   .summary =
                       "queries and keys turned by position-dependent angles (Su et al. 2021), with context extensions",
                   .options = {{.key = "rope_theta",
                                .default_value = 10000.0,
                                .help = "base of the frequencies",
                                .minimum = 1.0 + 1e-9,
                                .maximum = 1e15},
                               {.key = "rope_pairing",
                                .default_value = std::string("interleaved"),
                                .help = "which columns form a pair: (2i, 2i+1) or (i, i + dims/2)",
                                .choices = {"interleaved", "split_half"}},
                               {.key = "rope_dims",
                                .default_value = int64_t{0},
                                .help = "columns of a head that turn; 0: all of d_head",
                                .minimum = 0,
                                .maximum = 65536},
                               {.key = "rope_scaling",
                                .default_value = std::string("none"),
                                .help = "change of the frequencies for longer contexts",
                                .choices = {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"}},
                               {.key = "rope_factor",
                                .default_value = 1.0,
                                .help = "how many times longer the context becomes",
                                .minimum = 1e-3,
                                .maximum = 1e6},
                               {.key = "rope_original_context",
                                .default_value = int64_t{0},
                                .help = "context the frequencies were made for; 0: position.max_length",
                                .minimum = 0,
                                .maximum = 1 << 30},
                               {.key = "yarn_beta_fast",
                                .default_value = 32.0,
                                .help = "yarn: pairs that turn more often are kept",
                                .minimum = 1e-6,
                                .maximum = 1e9},
                               {.key = "yarn_beta_slow",
                                .default_value = 1.0,
                                .help = "yarn: pairs that turn less often are interpolated",
                                .minimum = 1e-6,
                                .maximum = 1e9},
                               {.key = "llama3_low_freq_factor",
                                .default_value = 1.0,
                                .help = "llama3: wavelengths over context / this are interpolated",
                                .minimum = 1e-6,
                                .maximum = 1e9},
                               {.key = "llama3_high_freq_factor",
                                .default_value = 4.0,
                                .help = "llama3: wavelengths under context / this are kept",
                                .minimum = 1e-6,
                                .maximum = 1e9}}},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Rope>(config, sizes);
          }};
}

}  // namespace ropewalk
