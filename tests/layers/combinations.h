#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/layers/small_model.h"

namespace ropewalk::testing {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && std::memcmp(a.bytes, b.bytes, a.size_bytes()) == 0;
}

/// Whether the logits of token t of the only sequence are the same in every bit.
inline bool same_row(const Tensor& a, const Tensor& b, int64_t t) {
  const int64_t v = a.shape[-1];
  return std::memcmp(a.data<double>() + t * v, b.data<double>() + t * v, static_cast<std::size_t>(v) * 8) == 0;
}

inline double greatest_difference(const Tensor& a, const Tensor& b, int64_t offset_in_b = 0) {
  double worst = 0;
  for (int64_t i = 0; i < a.elements(); ++i) worst = std::max(worst, std::abs(a.at(i) - b.at(offset_in_b + i)));
  return worst;
}

// Under sanitizers every kernel runs all the same, and differences of single elements would take minutes more.
#ifdef __SANITIZE_ADDRESS__
inline constexpr uint64_t kElementsCompared = 0;
#else
inline constexpr uint64_t kElementsCompared = 2;
#endif

/// loss_gradient_error() at the values that the parameters have; `other_keys` tells whether an indexer chose other keys
/// somewhere along a difference, where the loss jumps.
inline double loss_gradient_error_here(const Transformer& model, int64_t length, bool& other_keys) {
  // Where a bias is made of lines, so small a step that none of them ends within it.
  const double step = model.config().position.encoding == "fire" ? 1e-5 : 2e-4;
  const ParameterSet& parameters = model.parameters();
  const std::vector<int32_t> tokens = some_tokens(2 * length);
  std::vector<int32_t> targets = some_tokens(2 * length, 1);
  targets[1] = kIgnoredTarget;
  GradientBuffer gradients(parameters);
  std::vector<int32_t> selected;
  loss_of(model, tokens, targets, 2, &gradients, &selected);
  other_keys = false;
  const Tensor& values = parameters.flat_values();
  const auto difference = [&](const std::function<void(double)>& move) {
    const double h = step;
    const auto at = [&](double x) {
      move(x);
      std::vector<int32_t> now;
      const double loss = loss_of(model, tokens, targets, 2, nullptr, &now);
      other_keys = other_keys || now != selected;
      move(0);
      return loss;
    };
    return (45 * (at(h) - at(-h)) - 9 * (at(2 * h) - at(-2 * h)) + (at(3 * h) - at(-3 * h))) / (60 * h);
  };
  double worst = 0;
  double largest = 0;
  const auto compare = [&](double analytic, double numeric) {
    const double error = std::abs(analytic - numeric);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  };
  double along = 0;
  std::vector<double> direction(static_cast<std::size_t>(parameters.flat_elements()), 0.0);
  for (int32_t p = 0; p < static_cast<int32_t>(parameters.size()) && !other_keys; ++p) {
    const Parameter& parameter = parameters[p];
    const Tensor gradient = parameters.view(gradients.flat(), p);
    for (int64_t i = 0; i < gradient.elements(); ++i) {
      const double d = random_normal({.seed = 3, .a = static_cast<uint32_t>(p)}, static_cast<uint64_t>(i)) / 16;
      direction[static_cast<std::size_t>(parameter.offset + i)] = d;
      along += d * gradient.at(i);
      largest = std::max(largest, std::abs(gradient.at(i)));
    }
    for (uint64_t n = 0; n < kElementsCompared; ++n) {
      const double u = random_uniform({.seed = 4, .a = static_cast<uint32_t>(p)}, n);
      const auto element = static_cast<int64_t>(u * static_cast<double>(gradient.elements()));
      const double x = values.at(parameter.offset + element);
      compare(gradient.at(element), difference([&](double step) { values.set(parameter.offset + element, x + step); }));
    }
  }
  std::vector<double> start;
  for (int64_t i = 0; i < values.elements(); ++i) start.push_back(values.at(i));
  compare(along, difference([&](double step) {
            for (std::size_t i = 0; i < start.size(); ++i) {
              values.set(static_cast<int64_t>(i), start[i] + step * direction[i]);
            }
          }));
  return worst / largest;
}

/// Greatest error of the loss gradient in some elements of every parameter and along a random direction, against
/// central differences, over the greatest element of the gradient. The loss is smooth as long as every indexer chooses
/// the same keys, and jumps where it chooses others; where that happens somewhere along a difference, the parameters
/// get other values.
inline double loss_gradient_error(const Transformer& model, int64_t length) {
  for (uint64_t seed = 12; seed < 32; ++seed) {
    bool other_keys = false;
    const double error = loss_gradient_error_here(model, length, other_keys);
    if (!other_keys) return error;
    randomize(model.parameters(), 0.3, seed);
  }
  return INFINITY;
}

/// What the heads share: nothing, keys and values in groups or all, or a latent.
enum class Sharing : uint8_t { mha, gqa, mqa, mla };
inline constexpr NameTable<Sharing, 4> kSharingNames{
    {{Sharing::mha, "mha"}, {Sharing::gqa, "gqa"}, {Sharing::mqa, "mqa"}, {Sharing::mla, "mla"}}};

enum class Pattern : uint8_t { full, window, longformer, top_k };
inline constexpr NameTable<Pattern, 4> kPatternNames{{{Pattern::full, "full"},
                                                      {Pattern::window, "window"},
                                                      {Pattern::longformer, "longformer"},
                                                      {Pattern::top_k, "top_k"}}};

/// A model of every encoding, kind of attention, pattern of visible keys and placement of norms.
struct Combination {
  std::string encoding;
  NormPlacement placement = NormPlacement::pre;
  Norm norm = Norm::layernorm;
  Sharing sharing = Sharing::mha;
  Pattern pattern = Pattern::full;
  std::map<std::string, PositionValue> options = {};  ///< other than their defaults
  std::string options_name = {};
  int64_t randomize_to = 0;  ///< position.randomize_to

  ArchitectureConfig architecture() const {
    ArchitectureConfig config = small_architecture(encoding);
    config.model.norm_placement = placement;
    config.model.norm = norm;
    if (sharing == Sharing::mla) {
      config.attention.kind = AttentionKind::mla;
      config.attention.mla_kv_rank = 5;
      // Schemes of their own go without a rotated stream, without a query latent, or with both.
      config.attention.mla_rope_dims = encoding == "none" ? 0 : 2;
      config.attention.mla_q_rank = encoding == "t5" ? 0 : 6;
      config.attention.mla_latent_norm = encoding != "alibi";
    } else if (sharing != Sharing::mha) {
      config.model.n_heads = 4;
      config.model.d_head = 4;
      config.model.n_kv_heads = sharing == Sharing::gqa ? 2 : 1;
    }
    if (pattern == Pattern::window || pattern == Pattern::longformer) config.attention.window_radius = 2;
    if (pattern == Pattern::top_k) {
      config.attention.pattern = AttentionPattern::top_k;
      config.attention.top_k = 3;
      config.attention.index_heads = 2;
      config.attention.index_dim = 4;
    }
    if (pattern == Pattern::longformer) config.attention.global_tokens = 1;
    for (const auto& [key, value] : options) config.position.options[key] = value;
    config.position.randomize_to = randomize_to;
    config.position.max_length = std::max(config.position.max_length, randomize_to);
    return config;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Combination& c) {
  return out << c.encoding << "_" << name_in(kNormPlacementNames, c.placement) << "_" << name_in(kNormNames, c.norm)
             << "_" << name_in(kSharingNames, c.sharing) << "_" << name_in(kPatternNames, c.pattern) << c.options_name
             << (c.randomize_to > 0 ? "_randomized" : "");
}

/// Every value of every choice and switch of a scheme but the default, with what it takes to be read, and numbers.
inline std::vector<Combination> option_combinations(const PositionSchemeInfo& info) {
  std::vector<Combination> out;
  const auto add = [&](const PositionOption& option, const PositionValue& value, const std::string& name) {
    Combination c{.encoding = info.name, .options = {{option.key, value}}, .options_name = "_" + option.key + name};
    if (!option.read_with.key.empty()) c.options[option.read_with.key] = option.read_with.values.front();
    if (info.name == "rope") {  // seen within the few tokens of a test
      c.options["rope_factor"] = 3.0;
      c.options["rope_original_context"] = int64_t{4};
    }
    out.push_back(c);
  };
  const std::map<std::string, double> numbers = {{"rope_zero_low", 0.5},     {"rope_attention_factor", 1.3},
                                                 {"xpos_gamma", 0.1},        {"xpos_scale_base", 3.0},
                                                 {"sinusoidal_base", 100.0}, {"rope_theta", 10.0}};
  const std::map<std::string, int64_t> whole_numbers = {{"fire_threshold", 50}, {"fire_width", 1}};
  for (const PositionOption& option : info.options) {
    if (const bool* flag = std::get_if<bool>(&option.default_value)) add(option, !*flag, "");
    for (const std::string& choice : option.choices) {
      if (PositionValue(choice) != option.default_value) add(option, choice, "_" + choice);
    }
    if (numbers.contains(option.key)) add(option, numbers.at(option.key), "");
    if (whole_numbers.contains(option.key)) add(option, whole_numbers.at(option.key), "");
  }
  return out;
}

/// Several times the tokens of a test.
inline constexpr int64_t kRandomizedTo = 23;

/// Every encoding with every placement and kind of norm, and every option of each, and at randomized positions.
inline std::vector<Combination> norm_combinations() {
  std::vector<Combination> out;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const auto& [placement, placement_name] : kNormPlacementNames) {
      for (const auto& [norm, norm_name] : kNormNames) out.push_back({info.name, placement, norm});
    }
    out.push_back({.encoding = info.name, .randomize_to = kRandomizedTo});
    for (const Combination& c : option_combinations(info)) out.push_back(c);
  }
  return out;
}

/// Whether the model refuses the combination, as its documentation says.
inline bool is_illegal(const Combination& c) {
  return c.sharing == Sharing::mla && (c.encoding == "shaw" || c.encoding == "xl");
}

/// Does what a layer makes of a token depend on how many follow? A deeper layer's cache then holds what a longer pass
/// would have made otherwise.
inline bool follows_the_length(const Combination& c) {
  const auto scaling = c.options.find("rope_scaling");
  return scaling != c.options.end() && scaling->second == PositionValue(std::string("dynamic_ntk"));
}

/// Every encoding, kind of attention and pattern that is legal, also at randomized positions, and every option of each
/// encoding that a cache can serve; those of RoPE with an indexer, too, which turns by them.
inline std::vector<Combination> attention_combinations() {
  std::vector<Combination> out;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const auto& [sharing, sharing_name] : kSharingNames) {
      for (const auto& [pattern, pattern_name] : kPatternNames) {
        const Combination c{.encoding = info.name, .sharing = sharing, .pattern = pattern};
        if (!is_illegal(c)) out.push_back(c);
      }
    }
    for (const auto& [sharing, pattern] :
         {std::pair{Sharing::mha, Pattern::full}, {Sharing::mla, Pattern::full}, {Sharing::gqa, Pattern::longformer}}) {
      const Combination c{.encoding = info.name, .sharing = sharing, .pattern = pattern, .randomize_to = kRandomizedTo};
      if (!is_illegal(c)) out.push_back(c);
    }
    for (const Combination& c : option_combinations(info)) {
      if (follows_the_length(c)) continue;
      out.push_back(c);
      if (info.name != "rope") continue;
      out.push_back(c);
      out.back().pattern = Pattern::top_k;
    }
  }
  return out;
}

/// Every placement of norms for one encoding, kind of attention and pattern.
class EveryPlacementTest : public ::testing::TestWithParam<Combination> {
 protected:
  template <class F>
  void for_placements(F&& f) const {
    for (const auto& [placement, name] : kNormPlacementNames) {
      SCOPED_TRACE(name);
      Combination c = GetParam();
      c.placement = placement;
      f(c.architecture());
    }
  }
};

}  // namespace ropewalk::testing
