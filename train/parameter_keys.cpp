#include "train/parameter_keys.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "train/config_resolve.h"

namespace ropewalk {
namespace {

bool is_one_of(const std::string& key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

bool fixes_parameters(const std::string& key, const OptionTable& table) {
  if (const Option* option = table.find(key); !option->schemes.empty()) return option->fixes_parameters;
  if (key.starts_with("data.") || key.starts_with("train.")) {
    return is_one_of(key, {"data.source", "data.tokenizer", "data.task", "data.alphabet", "train.dtype"});
  }
  return !is_one_of(key, {"attention.window_radius", "attention.global_tokens", "attention.scale_scores",
                          "attention.top_k", "attention.index_precision", "attention.index_hadamard",
                          "attention.index_warmup_steps", "model.dropout", "model.init", "position.randomize_to"});
}

std::vector<std::string> parameter_conflicts(const Config& config, const Config& trained, const OptionTable& table) {
  const std::vector<std::string> sections = {"model", "position", "attention", "data", "train"};
  std::vector<std::string> out;
  for (KeyDifference& difference : differing_keys(config, trained, sections, table)) {
    if (fixes_parameters(difference.key, table)) out.push_back(std::move(difference.text));
  }
  return out;
}

}  // namespace ropewalk
