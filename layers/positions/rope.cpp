#include "layers/positions/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/error.h"
#include "layers/positions/scheme.h"
#include "layers/positions/table_length.h"

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
    settings_ = {.dims = config.integer("rope_dims"),
                 .theta = config.real("rope_theta"),
                 .scaling = config.text("rope_scaling"),
                 .factor = config.real("rope_factor"),
                 .original_context = config.integer("rope_original_context"),
                 .beta_fast = config.real("yarn_beta_fast"),
                 .beta_slow = config.real("yarn_beta_slow"),
                 .low_freq_factor = config.real("llama3_low_freq_factor"),
                 .high_freq_factor = config.real("llama3_high_freq_factor")};
    pairing_ = config.text("rope_pairing") == "split_half" ? RopePairing::split_half : RopePairing::interleaved;
  }

  void prepare(int64_t length) override {
    const bool fits = table_.cos.shape.rank() == 2 && table_.cos.shape[0] >= length;
    if (fits && (!depends_on_length() || settings_.length == length)) return;
    settings_.length = length;
    const RopeFrequencies frequencies = rope_frequencies(settings_);
    const int64_t rows = depends_on_length() ? length : table_length(length);
    table_ = make_rotary_table(frequencies.inverse, frequencies.attention_factor, 0, rows, pairing_, dtype_);
  }
  const RotaryTable* rotation() const override { return &table_; }
  bool depends_on_length() const override { return settings_.scaling == "dynamic_ntk"; }

 private:
  RopeSettings settings_;
  RopePairing pairing_ = RopePairing::interleaved;
  DType dtype_;
  RotaryTable table_;
};

PositionFindings check_scaling(const PositionConfig& p, bool dims_known) {
  const std::string& scaling = p.text("rope_scaling");
  const double factor = p.real("rope_factor");
  const int64_t dims = p.integer("rope_dims");
  PositionFindings found;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& message) {
    if (!holds) found.push_back({std::move(keys), message});
  };
  const bool beyond_one = scaling == "yarn" || scaling == "llama3" || scaling == "dynamic_ntk";
  require(!beyond_one || factor >= 1, {"position.rope_scaling", "position.rope_factor"},
          fmt::format("position.rope_scaling = {} needs a factor of at least 1; position.rope_factor = {}", scaling,
                      factor));
  require(
      scaling == "none" || factor > 0, {"position.rope_scaling", "position.rope_factor"},
      fmt::format("position.rope_scaling = {} needs a positive factor; position.rope_factor = {}", scaling, factor));
  const bool by_base = scaling == "ntk" || scaling == "dynamic_ntk";
  require(!by_base || !dims_known || dims > 2, {"position.rope_scaling", "position.rope_dims"},
          fmt::format("position.rope_scaling = {} needs more than 2 rotated dimensions; position.rope_dims = {}",
                      scaling, dims));
  const double low = p.real("llama3_low_freq_factor");
  const double high = p.real("llama3_high_freq_factor");
  require(scaling != "llama3" || low < high, {"position.llama3_low_freq_factor", "position.llama3_high_freq_factor"},
          fmt::format("position.llama3_low_freq_factor = {} must be less than position.llama3_high_freq_factor = {}",
                      low, high));
  const double fast = p.real("yarn_beta_fast");
  const double slow = p.real("yarn_beta_slow");
  require(scaling != "yarn" || fast > slow, {"position.yarn_beta_fast", "position.yarn_beta_slow"},
          fmt::format("position.yarn_beta_fast = {} must be greater than position.yarn_beta_slow = {}", fast, slow));
  return found;
}

PositionFindings check(const PositionUse& use) {
  const ModelConfig& m = use.model;
  const int64_t dims = use.position.integer("rope_dims");
  const bool known = m.d_head > 0;
  PositionFindings found = check_scaling(use.position, known);
  if (known && dims == m.d_head && dims % 2 != 0) {
    found.push_back(
        {{"model.d_head", "model.d_model", "model.n_heads"},
         fmt::format("position.encoding = rope rotates pairs, but the width of a head is odd: model.d_head = {} of "
                     "model.d_model = {} and model.n_heads = {}; give an even model.d_head or position.rope_dims",
                     m.d_head, m.d_model, m.n_heads)});
  } else if (known && dims % 2 != 0) {
    found.push_back({{"position.rope_dims"}, fmt::format("position.rope_dims = {} must be even", dims)});
  }
  if (known && dims > m.d_head) {
    found.push_back({{"position.rope_dims", "model.d_head"},
                     fmt::format("position.rope_dims = {} exceeds model.d_head = {}", dims, m.d_head)});
  }
  return found;
}

}  // namespace

PositionSchemeRow rope_scheme() {
  const ReadWith any_scaling{"rope_scaling", {"linear", "ntk", "dynamic_ntk", "yarn", "llama3"}};
  const ReadWith from_original{"rope_scaling", {"dynamic_ntk", "yarn", "llama3"}};
  const ReadWith yarn_only{"rope_scaling", {"yarn"}};
  const ReadWith llama3_only{"rope_scaling", {"llama3"}};
  return {.info = {.name = "rope",
                   .summary =
                       "queries and keys turned by position-dependent angles (Su et al. 2021), with context extensions",
                   .options = {{.key = "rope_theta",
                                .default_value = 10000.0,
                                .help = "base of the frequencies",
                                .minimum = 1.0 + 1e-9,
                                .maximum = 1e15,
                                .fixes_parameters = false},
                               {.key = "rope_pairing",
                                .default_value = std::string("interleaved"),
                                .help = "which columns form a pair: (2i, 2i+1) or (i, i + dims/2)",
                                .choices = {"interleaved", "split_half"}},
                               {.key = "rope_dims",
                                .default_value = int64_t{0},
                                .help = "columns of a head that turn; 0: all of d_head",
                                .minimum = 0,
                                .maximum = 65536,
                                .derived_from = DerivedFrom::d_head},
                               {.key = "rope_scaling",
                                .default_value = std::string("none"),
                                .help = "change of the frequencies for longer contexts",
                                .choices = {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"},
                                .fixes_parameters = false},
                               {.key = "rope_factor",
                                .default_value = 1.0,
                                .help = "how many times longer the context becomes",
                                .minimum = 1e-3,
                                .maximum = 1e6,
                                .read_with = any_scaling,
                                .fixes_parameters = false},
                               {.key = "rope_original_context",
                                .default_value = int64_t{0},
                                .help = "context the frequencies were made for; 0: position.max_length",
                                .minimum = 0,
                                .maximum = 1 << 30,
                                .derived_from = DerivedFrom::max_length,
                                .read_with = from_original,
                                .fixes_parameters = false},
                               {.key = "yarn_beta_fast",
                                .default_value = 32.0,
                                .help = "yarn: pairs that turn more often are kept",
                                .minimum = 1e-6,
                                .maximum = 1e9,
                                .read_with = yarn_only,
                                .fixes_parameters = false},
                               {.key = "yarn_beta_slow",
                                .default_value = 1.0,
                                .help = "yarn: pairs that turn less often are interpolated",
                                .minimum = 1e-6,
                                .maximum = 1e9,
                                .read_with = yarn_only,
                                .fixes_parameters = false},
                               {.key = "llama3_low_freq_factor",
                                .default_value = 1.0,
                                .help = "llama3: wavelengths over context / this are interpolated",
                                .minimum = 1e-6,
                                .maximum = 1e9,
                                .read_with = llama3_only,
                                .fixes_parameters = false},
                               {.key = "llama3_high_freq_factor",
                                .default_value = 4.0,
                                .help = "llama3: wavelengths under context / this are kept",
                                .minimum = 1e-6,
                                .maximum = 1e9,
                                .read_with = llama3_only,
                                .fixes_parameters = false}},
                   .check = check},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Rope>(config, sizes);
          }};
}

}  // namespace ropewalk
