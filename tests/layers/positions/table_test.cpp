#include <algorithm>
#include <map>
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
  EXPECT_EQ(names, (std::set<std::string>{"alibi", "fire", "kerple", "learned", "none", "rope", "shaw", "sinusoidal",
                                          "t5", "xl", "xpos"}));
  ASSERT_EQ(position_scheme_infos().size(), names.size());
}

TEST(PositionSchemesTest, OptionsHaveDefaultsWithinTheirLimitsAndSharedKeysAreDeclaredAlike) {
  std::map<std::string, PositionOption> keys;
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    std::set<std::string> own;
    for (const PositionOption& option : info.options) {
      EXPECT_TRUE(own.insert(option.key).second) << option.key;
      const auto [known, added] = keys.insert({option.key, option});
      if (!added) {
        const PositionOption& other = known->second;
        EXPECT_TRUE(other.default_value == option.default_value && other.help == option.help &&
                    other.minimum == option.minimum && other.maximum == option.maximum &&
                    other.choices == option.choices && other.derived_from == option.derived_from &&
                    other.read_with.key == option.read_with.key && other.fixes_parameters == option.fixes_parameters)
            << option.key << " of " << info.name;
      }
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
    const auto scheme = make_position_scheme(config, {.n_heads = 3, .d_model = 6, .d_head = 2, .dtype = DType::f64});
    ASSERT_NE(scheme, nullptr);
    EXPECT_EQ(scheme->greatest_length() > 0, row.info.name == "learned" || row.info.name == "xpos") << row.info.name;
    EXPECT_EQ(scheme->rotation() != nullptr, row.info.rotates) << row.info.name;
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

/// The messages of what a scheme finds at these options, warnings marked.
std::vector<std::string> findings(PositionUse use) {
  std::vector<std::string> out;
  for (const PositionFinding& finding : check_position(use)) {
    EXPECT_FALSE(finding.keys.empty()) << finding.message;
    out.push_back((finding.warning ? "warning: " : "") + finding.message);
  }
  return out;
}

/// A scheme in a model of two heads of eight columns.
PositionUse use_of(const std::string& encoding) {
  PositionUse use{.position = default_position_config(), .model = {.d_model = 16, .n_heads = 2, .d_head = 8}};
  use.position.encoding = encoding;
  use.position.max_length = 32;
  derive_position_options(use.position, use.model.d_head);
  return use;
}

using Messages = std::vector<std::string>;

TEST(PositionSchemesTest, FindNothingWrongAtTheirDefaults) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    EXPECT_EQ(findings(use_of(info.name)), Messages{}) << info.name;
  }
}

TEST(PositionSchemesTest, T5FindsADistanceWithinItsExactBuckets) {
  PositionUse use = use_of("t5");
  use.position.options["t5_max_distance"] = int64_t{16};
  EXPECT_EQ(findings(use),
            Messages{"position.t5_max_distance = 16 must exceed 16, the distances with a bucket of their "
                     "own at position.t5_buckets = 32 and attention.causal = true"});
  use.causal = false;
  EXPECT_EQ(findings(use), Messages{});
}

TEST(PositionSchemesTest, OffsetsThatNeverTrainAreFoundOnlyWhereTheTrainingIsKnown) {
  PositionUse use = use_of("shaw");
  use.position.options["shaw_clip"] = int64_t{40};
  EXPECT_EQ(findings(use), Messages{});
  use.context_length = 39;
  EXPECT_EQ(findings(use),
            Messages{"warning: position.shaw_clip = 40 exceeds train.context_length = 39; what stands for "
                     "farther offsets never trains"});
}

TEST(PositionSchemesTest, YarnFindsAContextTooShortForItsFastPairs) {
  PositionUse use = use_of("rope");  // 32 positions: 5.09 turns of the fastest pair
  use.position.options["rope_scaling"] = std::string("yarn");
  use.position.options["rope_factor"] = 4.0;
  const std::string start =
      "warning: position.yarn_beta_fast = 32 is more than the 5.09 turns of the fastest pair in "
      "position.rope_original_context = 32, so that yarn ";
  EXPECT_EQ(findings(use), Messages{start + "leaves no pair untouched but the first; less than 5 keeps some"});
  use.position.options["yarn_ramp"] = std::string("paper");
  EXPECT_EQ(findings(use), Messages{start + "leaves no pair untouched; less than 5 keeps some"});
  use.position.options["yarn_beta_fast"] = 5.0;
  EXPECT_EQ(findings(use), Messages{});
}

std::vector<std::string> facts(const PositionUse& use) {
  std::vector<std::string> out;
  for (const PositionFact& fact : describe_position(use)) out.push_back(fact.name + ": " + fact.text);
  return out;
}

TEST(PositionSchemesTest, RotationsAreDescribedByPairingBaseWidthAndScaling) {
  PositionUse use = use_of("rope");
  EXPECT_EQ(facts(use), Messages{"rotation: interleaved pairs (2i, 2i + 1), base 10000, 8 of 8 columns paired, scaling "
                                 "none, attention factor 1"});
  use.position.options["rope_pairing"] = std::string("split_half");
  use.position.options["rope_dims"] = int64_t{4};
  use.position.options["rope_scaling"] = std::string("linear");
  use.position.options["rope_factor"] = 4.0;
  EXPECT_EQ(facts(use), (Messages{"rotation: split_half pairs (i, i + dims/2), base 10000, 4 of 8 columns paired, "
                                  "scaling linear by 4, attention factor 1",
                                  "frequencies kept: 0.25 0.25"}));
  use = use_of("xpos");
  EXPECT_EQ(facts(use).front(), "rotation: interleaved pairs (2i, 2i + 1), base 10000, 8 of 8 columns paired");
  EXPECT_EQ(facts(use).back(), "xpos decay: halves within 283.3 (fastest pair) to 1804 (slowest) positions");
}

TEST(PositionSchemesTest, YarnIsDescribedByTheEndsOfItsRampAndWhatItKeepsOfEachFrequency) {
  PositionUse use = use_of("rope");
  use.model = {.d_model = 32, .n_heads = 2, .d_head = 16};
  use.position.options["rope_dims"] = int64_t{16};
  use.position.options["rope_original_context"] = int64_t{64};
  use.position.options["rope_scaling"] = std::string("yarn");
  use.position.options["rope_factor"] = 4.0;
  EXPECT_EQ(facts(use),
            (Messages{"rotation: interleaved pairs (2i, 2i + 1), base 10000, 16 of 16 columns paired, scaling "
                      "yarn by 4 of 64 positions, attention factor 1.13863",
                      "yarn ramp: code: low 0, high 3 of pairs 0 to 7",
                      "frequencies kept: 1 0.75 0.5 0.25 0.25 0.25 0.25 0.25"}));
}

TEST(PositionSchemesTest, XposWarnsOfKeysThatComeAfterTheQuery) {
  PositionUse use = use_of("xpos");
  use.causal = false;
  EXPECT_EQ(findings(use), Messages{"warning: attention.causal = false with position.encoding = xpos: what a query "
                                    "sees after it counts more the farther away it is"});
}

TEST(PositionSchemesTest, RotationSaysNothingOfAWidthThatIsNotKnown) {
  PositionUse use = use_of("rope");
  use.position.options["rope_dims"] = int64_t{5};
  EXPECT_EQ(findings(use), Messages{"position.rope_dims = 5 must be even"});
  use.model.d_head = 0;
  EXPECT_EQ(findings(use), Messages{});
}

TEST(PositionSchemesTest, OptionsThatAreZeroDeriveAndOthersStay) {
  PositionUse use = use_of("none");
  EXPECT_EQ(use.position.integer("rope_dims"), 8);
  EXPECT_EQ(use.position.integer("rope_original_context"), 32);
  use.position.options["rope_dims"] = int64_t{4};
  derive_position_options(use.position, 8);
  EXPECT_EQ(use.position.integer("rope_dims"), 4);
}

TEST(PositionSchemesTest, WhatAnOptionIsReadWithIsAChoiceOfItsScheme) {
  for (const PositionSchemeInfo& info : position_scheme_infos()) {
    for (const PositionOption& option : info.options) {
      if (option.read_with.key.empty()) continue;
      const auto other = std::find_if(info.options.begin(), info.options.end(),
                                      [&](const PositionOption& o) { return o.key == option.read_with.key; });
      ASSERT_NE(other, info.options.end()) << option.key;
      for (const std::string& value : option.read_with.values) {
        EXPECT_NE(std::find(other->choices.begin(), other->choices.end(), value), other->choices.end()) << option.key;
      }
    }
  }
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
