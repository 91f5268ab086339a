#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "layers/positions/scheme.h"

namespace ropewalk::testing {
namespace {

TEST(PositionSchemesTest, HaveDifferentNamesAndASummary) {
  std::set<std::string> names;
  for (const PositionSchemeRow& row : position_schemes()) {
    EXPECT_TRUE(names.insert(row.info.name).second) << row.info.name;
    EXPECT_FALSE(row.info.summary.empty()) << row.info.name;
    EXPECT_TRUE(row.make) << row.info.name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"alibi", "kerple", "learned", "none", "rope", "shaw", "sinusoidal", "t5"}));
  ASSERT_EQ(position_scheme_infos().size(), names.size());
}

TEST(PositionSchemesTest, OptionsHaveDifferentKeysAndDefaultsWithinTheirLimits) {
  std::set<std::string> keys;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const PositionOption& option : info.options) {
      EXPECT_TRUE(keys.insert(option.key).second) << option.key;
      EXPECT_FALSE(option.help.empty()) << option.key;
      if (const auto* text = std::get_if<std::string>(&option.default_value)) {
        EXPECT_NE(std::find(option.choices.begin(), option.choices.end(), *text), option.choices.end()) << option.key;
      } else if (!std::holds_alternative<bool>(option.default_value)) {
        const auto* integer = std::get_if<int64_t>(&option.default_value);
        const double value =
            integer != nullptr ? static_cast<double>(*integer) : std::get<double>(option.default_value);
        EXPECT_LE(option.minimum, value) << option.key;
        EXPECT_GE(option.maximum, value) << option.key;
        EXPECT_TRUE(option.choices.empty()) << option.key;
      }
    }
  }
  const PositionConfig config = default_position_config();
  EXPECT_EQ(config.options.size(), keys.size());
  EXPECT_EQ(config.encoding, "rope");
}

TEST(PositionSchemesTest, EverySchemeCanBeMadeFromTheDefaults) {
  PositionConfig config = default_position_config();
  config.max_length = 6;
  for (const PositionSchemeRow& row : position_schemes()) {
    config.encoding = row.info.name;
    const auto scheme =
        make_position_scheme(config, {.n_layers = 1, .n_heads = 3, .d_model = 6, .d_head = 2, .dtype = DType::f64});
    ASSERT_NE(scheme, nullptr);
    EXPECT_EQ(scheme->greatest_length(), row.info.name == "learned" ? 6 : 0) << row.info.name;
    EXPECT_EQ(scheme->rotation() != nullptr, row.info.name == "rope") << row.info.name;
  }
}

TEST(PositionSchemesTest, RefuseAnUnknownName) {
  PositionConfig config = default_position_config();
  config.encoding = "rotary";
  try {
    make_position_scheme(config, {});
    FAIL() << "an unknown scheme was made";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rotary"), std::string::npos) << error.what();
  }
}

TEST(PositionSchemesTest, T5RefusesADistanceWithinItsExactBuckets) {
  PositionConfig config = default_position_config();
  config.encoding = "t5";
  config.options["t5_max_distance"] = int64_t{16};
  EXPECT_THROW(make_position_scheme(config, {.n_heads = 2}), Error);
  EXPECT_NO_THROW(make_position_scheme(config, {.n_heads = 2, .causal = false}));
}

TEST(PositionSchemesTest, ALearnedTableRefusesLongerSequences) {
  PositionConfig config = default_position_config();
  config.encoding = "learned";
  config.max_length = 6;
  const auto scheme = make_position_scheme(config, {.d_model = 4});
  EXPECT_NO_THROW(scheme->prepare(6));
  EXPECT_THROW(scheme->prepare(7), Error);
}

}  // namespace
}  // namespace ropewalk::testing
