#include "train/bench/bench_json.h"

#include "train/options.h"
#include "train/trainer.h"

namespace ropewalk {
namespace {

constexpr const char* kSettings[] = {"model.vocab_size",     "model.d_model",           "model.n_layers",
                                     "model.n_heads",        "model.n_kv_heads",        "model.d_head",
                                     "model.d_ff",           "model.activation",        "model.norm",
                                     "model.norm_placement", "position.encoding",       "attention.kind",
                                     "attention.causal",     "attention.window_radius", "train.batch_size",
                                     "train.accumulate",     "train.context_length",    "train.threads",
                                     "train.dtype"};

nlohmann::json value_of(const Config& config, const std::string& key) {
  const Option* option = option_table().find(key);
  if (option == nullptr) return nullptr;
  return std::visit([](const auto& value) { return nlohmann::json(value); }, option->get(config));
}

}  // namespace

void put_spread(nlohmann::json& row, const std::string& name, const Spread& spread) {
  row[name] = spread.median;
  row[name + "_lower_quartile"] = spread.lower;
  row[name + "_upper_quartile"] = spread.upper;
  row[name + "_least"] = spread.least;
  row[name + "_greatest"] = spread.greatest;
  row[name + "_noisy"] = spread.noisy();
}

void put_settings(nlohmann::json& out, const Config& config, const std::vector<std::string>& overridden) {
  nlohmann::json& settings = out["settings"] = nlohmann::json::object();
  for (const char* key : kSettings) settings[key] = value_of(config, key);
  settings["train.micro_batch"] = plan_batch(config).micro_batch;
  nlohmann::json& overrides = out["overrides"] = nlohmann::json::object();
  for (const std::string& key : overridden) overrides[key] = value_of(config, key);
}

}  // namespace ropewalk
