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

/// How often the fastest pair, of frequency 1, turns in the original context.
double most_turns(int64_t original_context) {
  return static_cast<double>(original_context) / (2 * std::numbers::pi);
}

void yarn(const RopeSettings& s, std::vector<double>& inverse) {
  const YarnRamp ends = yarn_ramp(s);
  for (std::size_t m = 0; m < inverse.size(); ++m) {
    const double turns = most_turns(s.original_context) * inverse[m];
    const double along = s.paper_ramp ? (s.beta_fast - turns) / (s.beta_fast - s.beta_slow)
                                      : (static_cast<double>(m) - ends.low) / std::max(ends.high - ends.low, 0.001);
    const double interpolated = std::clamp(along, 0.0, 1.0);
    inverse[m] = inverse[m] / s.factor * interpolated + inverse[m] * (1 - interpolated);
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

YarnRamp yarn_ramp(const RopeSettings& s) {
  const auto dims = static_cast<double>(s.dims);
  const auto index_of = [&](double turns) {
    return dims * std::log(most_turns(s.original_context) / turns) / (2 * std::log(s.theta));
  };
  const YarnRamp exact{index_of(s.beta_fast), index_of(s.beta_slow)};
  if (s.paper_ramp) return exact;
  return {std::max(std::floor(exact.low), 0.0), std::min(std::ceil(exact.high), dims - 1)};
}

namespace {

RopeFrequencies scaled_frequencies(const RopeSettings& s) {
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

}  // namespace

RopeFrequencies rope_frequencies(const RopeSettings& settings) {
  RopeFrequencies out = scaled_frequencies(settings);
  if (settings.attention_factor > 0) out.attention_factor = settings.attention_factor;
  const auto pairs = static_cast<double>(out.inverse.size());
  // 1 - 0.9 is a little less than 0.1.
  const auto turning = static_cast<std::ptrdiff_t>(std::floor((1 - settings.zero_low) * pairs + 1e-9));
  std::fill(out.inverse.begin() + turning, out.inverse.end(), 0.0);
  return out;
}

RopeSettings rope_settings(const PositionConfig& config) {
  return {.dims = config.integer("rope_dims"),
          .theta = config.real("rope_theta"),
          .scaling = config.text("rope_scaling"),
          .factor = config.real("rope_factor"),
          .original_context = config.integer("rope_original_context"),
          .beta_fast = config.real("yarn_beta_fast"),
          .beta_slow = config.real("yarn_beta_slow"),
          .low_freq_factor = config.real("llama3_low_freq_factor"),
          .high_freq_factor = config.real("llama3_high_freq_factor"),
          .paper_ramp = config.text("yarn_ramp") == "paper",
          .zero_low = config.real("rope_zero_low"),
          .attention_factor = config.real("rope_attention_factor")};
}

RopePairing rope_pairing(const PositionConfig& config) {
  return config.text("rope_pairing") == "split_half" ? RopePairing::split_half : RopePairing::interleaved;
}

std::vector<PositionOption> rotary_options() {
  return {{.key = "rope_theta",
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
           .derived_from = DerivedFrom::d_head}};
}

PositionFindings check_rotary_width(const PositionUse& use) {
  const ModelConfig& m = use.model;
  const int64_t dims = use.position.integer("rope_dims");
  if (m.d_head <= 0) return {};
  PositionFindings found;
  if (dims == m.d_head && dims % 2 != 0) {
    found.push_back(
        {{"model.d_head", "model.d_model", "model.n_heads"},
         fmt::format("position.encoding = {} rotates pairs, but the width of a head is odd: model.d_head = {} of "
                     "model.d_model = {} and model.n_heads = {}; give an even model.d_head or position.rope_dims",
                     use.position.encoding, m.d_head, m.d_model, m.n_heads)});
  } else if (dims % 2 != 0) {
    found.push_back({{"position.rope_dims"}, fmt::format("position.rope_dims = {} must be even", dims)});
  }
  if (dims > m.d_head) {
    found.push_back({{"position.rope_dims", "model.d_head"},
                     fmt::format("position.rope_dims = {} exceeds model.d_head = {}", dims, m.d_head)});
  }
  return found;
}

std::string rotation_text(const PositionUse& use) {
  const PositionConfig& p = use.position;
  const bool adjacent = rope_pairing(p) == RopePairing::interleaved;
  return fmt::format("{} pairs {}, base {}, {} of {} columns paired", p.text("rope_pairing"),
                     adjacent ? "(2i, 2i + 1)" : "(i, i + dims/2)", p.real("rope_theta"), p.integer("rope_dims"),
                     use.model.d_head);
}

namespace {

/// Queries and keys turned by angles that grow with the position, so that scores depend on the offset.
class Rope : public PositionScheme {
 public:
  Rope(const PositionConfig& config, const PositionSizes& sizes)
      : settings_(rope_settings(config)), pairing_(rope_pairing(config)), dtype_(sizes.dtype) {}

  void prepare(const PassPositions& positions) override {
    const int64_t length = positions.reach;
    const bool counted = positions.at.empty();
    const bool fits = table_.cos.shape.rank() == 2 && table_.cos.shape[0] >= length;
    if (counted && fits && (!depends_on_length() || settings_.length == length)) return;
    settings_.length = length;
    const RopeFrequencies frequencies = rope_frequencies(settings_);
    if (!counted) {
      table_ = make_rotary_table(frequencies.inverse, frequencies.attention_factor, positions.at, pairing_, dtype_);
      return;
    }
    const int64_t rows = depends_on_length() ? length : table_length(length);
    table_ = make_rotary_table(frequencies.inverse, frequencies.attention_factor, 0, rows, pairing_, dtype_);
  }
  const RotaryTable* rotation() const override { return &table_; }
  bool depends_on_length() const override { return settings_.scaling == "dynamic_ntk"; }

 private:
  RopeSettings settings_;
  RopePairing pairing_;
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

/// With too few positions for beta_fast no pair is kept by its turns: the short contexts of small models.
PositionFindings check_yarn_context(const PositionConfig& p) {
  const int64_t context = p.integer("rope_original_context");
  const double fast = p.real("yarn_beta_fast");
  if (p.text("rope_scaling") != "yarn" || context <= 0 || fast < most_turns(context)) return {};
  return {{.keys = {"position.rope_scaling", "position.yarn_beta_fast", "position.rope_original_context"},
           .message = fmt::format(
               "position.yarn_beta_fast = {} is more than the {:.2f} turns of the fastest pair in "
               "position.rope_original_context = {}, so that yarn {}; less than {:.0f} keeps some",
               fast, most_turns(context), context,
               p.text("yarn_ramp") == "paper" ? "leaves no pair untouched" : "leaves no pair untouched but the first",
               std::floor(most_turns(context))),
           .warning = true}};
}

PositionFindings check(const PositionUse& use) {
  PositionFindings found = check_scaling(use.position, use.model.d_head > 0);
  for (const PositionFindings& more : {check_yarn_context(use.position), check_rotary_width(use)}) {
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

/// Each pair's frequency as a share of that without scaling, to three digits.
std::string shares_text(const RopeSettings& settings, const RopeFrequencies& frequencies) {
  const std::vector<double> plain = spectrum(settings.theta, settings.dims);
  std::string out;
  for (std::size_t m = 0; m < plain.size(); ++m) {
    out += fmt::format("{}{:.3g}", m == 0 ? "" : " ", frequencies.inverse[m] / plain[m]);
  }
  return out;
}

std::vector<PositionFact> describe(const PositionUse& use) {
  RopeSettings s = rope_settings(use.position);
  s.length = use.context_length;
  for (const int64_t length : use.eval_lengths) s.length = std::max(s.length, length);
  const RopeFrequencies frequencies = rope_frequencies(s);
  const bool scaled = s.scaling != "none";
  const bool from_original = s.scaling == "dynamic_ntk" || s.scaling == "yarn" || s.scaling == "llama3";
  std::string text = rotation_text(use) + ", scaling " + s.scaling;
  if (scaled) text += fmt::format(" by {}", s.factor);
  if (from_original) text += fmt::format(" of {} positions", s.original_context);
  text += fmt::format(", attention factor {:.6g}", frequencies.attention_factor);
  std::vector<PositionFact> facts = {{"rotation", text}};
  if (s.scaling == "yarn") {
    const YarnRamp ramp = yarn_ramp(s);
    facts.push_back({"yarn ramp", fmt::format("{}: low {:.4g}, high {:.4g} of pairs 0 to {}",
                                              s.paper_ramp ? "paper" : "code", ramp.low, ramp.high, s.dims / 2 - 1)});
  }
  if (scaled || s.zero_low > 0) {
    facts.push_back({"frequencies kept", shares_text(s, frequencies) +
                                             (s.scaling == "dynamic_ntk" ? fmt::format("  (at {})", s.length) : "")});
  }
  return facts;
}

std::vector<PositionOption> options() {
  const ReadWith any_scaling{"rope_scaling", {"linear", "ntk", "dynamic_ntk", "yarn", "llama3"}};
  const ReadWith from_original{"rope_scaling", {"dynamic_ntk", "yarn", "llama3"}};
  const ReadWith yarn_only{"rope_scaling", {"yarn"}};
  const ReadWith llama3_only{"rope_scaling", {"llama3"}};
  std::vector<PositionOption> out = rotary_options();
  const std::vector<PositionOption> own = {
      {.key = "rope_zero_low",
       .default_value = 0.0,
       .help = "share of the pairs that do not turn, those of the lowest frequencies (p-RoPE, Barbero et al. 2024)",
       .minimum = 0,
       .maximum = 1,
       .fixes_parameters = false},
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
      {.key = "rope_attention_factor",
       .default_value = 0.0,
       .help = "multiplies queries and keys; 0: what the scaling gives, 0.1 ln(rope_factor) + 1 for yarn and else 1",
       .minimum = 0,
       .maximum = 1e3,
       .fixes_parameters = false},
      {.key = "yarn_ramp",
       .default_value = std::string("code"),
       .help = "yarn: the ramp between kept and interpolated pairs is linear in their index (the published code) or in "
               "their number of turns (the paper)",
       .choices = {"code", "paper"},
       .read_with = yarn_only,
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
       .fixes_parameters = false}};
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

}  // namespace

PositionSchemeRow rope_scheme() {
  return {.info = {.name = "rope",
                   .summary =
                       "queries and keys turned by position-dependent angles (Su et al. 2021), with context extensions",
                   .options = options(),
                   .rotates = true,
                   .check = check,
                   .describe = describe},
          .make = [](const PositionConfig& config, const PositionSizes& sizes) {
            return std::make_unique<Rope>(config, sizes);
          }};
}

}  // namespace ropewalk
