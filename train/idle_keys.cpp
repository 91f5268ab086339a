#include "train/idle_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/positions/options.h"

namespace ropewalk {
namespace {

/// Keys that are not read where `idle` holds, because of the value of `cause`.
struct IdleRule {
  std::vector<std::string> keys;
  std::string cause;
  bool (*idle)(const Config&);
};

const std::vector<IdleRule>& idle_rules() {
  static const std::vector<IdleRule> rules = {
      {{"model.norm"},
       "model.norm_placement",
       [](const Config& c) { return c.model.norm_placement == NormPlacement::none; }},
      {{"model.norm_eps"},
       "model.norm_placement",
       [](const Config& c) { return c.model.norm_placement == NormPlacement::none && !c.model.qk_norm; }},
      {{"attention.mla_kv_rank", "attention.mla_q_rank", "attention.mla_rope_dims", "attention.mla_latent_norm"},
       "attention.kind",
       [](const Config& c) { return c.attention.kind != AttentionKind::mla; }},
      {{"attention.top_k", "attention.index_heads", "attention.index_dim", "attention.index_precision",
        "attention.index_hadamard", "attention.index_warmup_steps"},
       "attention.pattern",
       [](const Config& c) { return c.attention.pattern != AttentionPattern::top_k; }},
      {{"attention.index_hadamard"},
       "attention.index_precision",
       [](const Config& c) { return c.attention.index_precision != IndexPrecision::int8; }},
      {{"attention.global_tokens"},
       "attention.window_radius",
       [](const Config& c) { return c.attention.window_radius < 0; }},
      {{"data.path", "data.validation_fraction", "eval.protocol", "eval.tail", "eval.stride"}, "data.source", is_task},
      {{"data.tokenizer"}, "data.source", [](const Config& c) { return c.data.source != "text"; }},
      {{"data.token_dtype"}, "data.source", [](const Config& c) { return c.data.source != "tokens"; }},
      {{"data.task", "data.min_length", "data.max_length", "data.alphabet", "data.digit_order", "data.gap",
        "data.train_problems"},
       "data.source",
       [](const Config& c) { return !is_task(c); }},
      {{"data.mask_probability"}, "model.arch", [](const Config& c) { return c.model.arch != Arch::encoder; }},
      {{"data.digit_order"}, "data.task", [](const Config& c) { return c.data.task != "addition"; }},
      {{"data.gap"}, "data.task", [](const Config& c) { return c.data.task != "associative_recall"; }},
      {{"optim.min_lr"}, "optim.schedule", [](const Config& c) { return c.optim.schedule == Schedule::constant; }},
      {{"eval.tail"}, "eval.protocol", [](const Config& c) { return c.eval.protocol != Protocol::same_tokens; }},
      {{"eval.stride"}, "eval.protocol", [](const Config& c) { return c.eval.protocol != Protocol::sliding; }}};
  return rules;
}

/// An option of the rotation of latent attention's stream, which every encoding has.
bool rotates_stream(const Option& option, const Config& config) {
  return config.attention.kind == AttentionKind::mla && config.attention.mla_rope_dims > 0 && option.applies_to("rope");
}

bool has_value(const Config& config, const ReadWith& read_with, const OptionTable& table) {
  const std::string value = config_value(config, "position." + read_with.key, table);
  return std::find(read_with.values.begin(), read_with.values.end(), value) != read_with.values.end();
}

/// Schemes read position.max_length by themselves or as what one of their options derives from.
std::string max_length_idle_because_of(const Config& config, const OptionTable& table) {
  const PositionSchemeInfo* scheme = find_position_scheme(config.position.encoding);
  // A run that begins with another's parameters counts multiples of lengths in it.
  if (scheme == nullptr || scheme->reads_max_length || !config.train.from.empty()) return "";
  for (const PositionOption& option : scheme->options) {
    if (option.derived_from != DerivedFrom::max_length) continue;
    return idle_because_of(config, "position." + option.key, table);
  }
  return "position.encoding";
}

}  // namespace

std::string idle_because_of(const Config& config, const std::string& key, const OptionTable& table) {
  const Option* option = table.find(key);
  if (key == "position.max_length") return max_length_idle_because_of(config, table);
  if (option != nullptr && !option->applies_to(config.position.encoding) && !rotates_stream(*option, config)) {
    return "position.encoding";
  }
  if (option != nullptr && !option->read_with.key.empty() && !has_value(config, option->read_with, table)) {
    return "position." + option->read_with.key;
  }
  for (const IdleRule& rule : idle_rules()) {
    if (std::find(rule.keys.begin(), rule.keys.end(), key) != rule.keys.end() && rule.idle(config)) return rule.cause;
  }
  return "";
}

std::vector<std::string> idle_key_warnings(const AppliedEntries& given, const ResolvedConfig& resolved,
                                           const OptionTable& table) {
  std::vector<std::string> warnings;
  for (const Option& option : table.options()) {
    if (given.origins.count(option.key) == 0) continue;
    const std::string cause = idle_because_of(resolved.config, option.key, table);
    if (cause.empty()) continue;
    Config without = given.config;
    option.set(without, option.get(table.defaults()));
    resolve(without);
    if (option.get(without) == option.get(resolved.config)) continue;  // as a resolved file holds it
    const Origin origin = resolved.origin(option.key);
    warnings.push_back(fmt::format("{}: warning: {} = {} changes nothing with {} = {} ({}, {})", origin.text(),
                                   option.key, config_value(resolved.config, option.key, table), cause,
                                   config_value(resolved.config, cause, table), origin.text(),
                                   resolved.origin(cause).text()));
  }
  return warnings;
}

}  // namespace ropewalk
