#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "layers/positions/options.h"
#include "train/config_error.h"
#include "train/options.h"

namespace ropewalk::testing {

/// Position schemes that stand for themselves, so that tests of the configuration do not move with the models.
inline const std::vector<PositionSchemeInfo>& scheme_infos() {
  static const std::vector<PositionSchemeInfo> infos = {
      {"none", "no positions", {}},
      {"learned", "a table", {}},
      {"sinusoidal", "fixed", {{.key = "sinusoidal_base", .default_value = 10000.0, .help = "base", .minimum = 1.0}}},
      {"shaw", "relative keys", {{.key = "shaw_clip", .default_value = int64_t{16}, .help = "clip", .minimum = 1}}},
      {"t5",
       "buckets",
       {{.key = "t5_buckets", .default_value = int64_t{32}, .help = "buckets", .minimum = 2},
        {.key = "t5_max_distance", .default_value = int64_t{128}, .help = "distance", .minimum = 1}}},
      {"alibi", "linear penalty", {}},
      {"rope",
       "rotation",
       {{.key = "rope_theta", .default_value = 10000.0, .help = "base", .minimum = 1.0},
        {.key = "rope_pairing",
         .default_value = std::string("interleaved"),
         .help = "pairs",
         .choices = {"interleaved", "split_half"}},
        {.key = "rope_dims", .default_value = int64_t{0}, .help = "dims", .minimum = 0},
        {.key = "rope_scaling",
         .default_value = std::string("none"),
         .help = "scaling",
         .choices = {"none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3"}},
        {.key = "rope_factor", .default_value = 1.0, .help = "factor", .minimum = 0.0},
        {.key = "rope_original_context", .default_value = int64_t{0}, .help = "context", .minimum = 0},
        {.key = "yarn_beta_fast", .default_value = 32.0, .help = "fast", .minimum = 0.0},
        {.key = "yarn_beta_slow", .default_value = 1.0, .help = "slow", .minimum = 0.0},
        {.key = "llama3_low_freq_factor", .default_value = 1.0, .help = "low", .minimum = 0.0},
        {.key = "llama3_high_freq_factor", .default_value = 4.0, .help = "high", .minimum = 0.0},
        {.key = "rope_zero_low", .default_value = 0.0, .help = "fraction", .minimum = 0.0, .maximum = 1.0},
        {.key = "rope_attention_factor", .default_value = 0.0, .help = "factor of the table", .minimum = 0.0},
        {.key = "yarn_ramp", .default_value = std::string("code"), .help = "ramp", .choices = {"code", "paper"}}}},
      {"kerple", "logarithmic", {{.key = "kerple_eps", .default_value = 0.01, .help = "eps", .minimum = 0.0}}},
  };
  return infos;
}

inline const OptionTable& table() {
  static const OptionTable options(scheme_infos());
  return options;
}

/// A test with a directory of its own, which is the working directory, so that messages hold short names.
class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "ropewalk-config-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = name;
    std::filesystem::current_path(directory_);
  }
  ~ConfigTest() override {
    std::filesystem::current_path(before_);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  ConfigTest(const ConfigTest&) = delete;
  ConfigTest& operator=(const ConfigTest&) = delete;

  static void write(const std::string& name, const std::string& text) {
    if (const auto parent = std::filesystem::path(name).parent_path(); !parent.empty()) {
      std::filesystem::create_directories(parent);
    }
    std::ofstream(name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path before_;
  std::filesystem::path directory_;
};

/// The messages of the ConfigError that `call` throws; none where it throws none.
template <class Call>
std::vector<std::string> errors_of(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.messages();
  }
  return {};
}

using Messages = std::vector<std::string>;

}  // namespace ropewalk::testing
