#include "train/options.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <stdexcept>

#include "tests/train/config_fixture.h"
#include "train/option_store.h"

namespace ropewalk {
namespace {

using testing::table;

const Option& option(const std::string& key) {
  const Option* found = table().find(key);
  if (found == nullptr) throw std::logic_error(key);
  return *found;
}

OptionValue parsed(const std::string& key, const std::string& text) {
  return parse_value(option(key), text);
}

std::string refusal(const std::string& key, const std::string& text) {
  try {
    parse_value(option(key), text);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "accepted";
}

TEST(Options, KeysAreUniqueAndDescribed) {
  std::set<std::string> keys;
  for (const Option& o : table().options()) {
    EXPECT_TRUE(keys.insert(o.key).second) << o.key;
    EXPECT_FALSE(o.help.empty()) << o.key;
    EXPECT_NE(o.key.find('.'), std::string::npos) << o.key;
  }
}

TEST(Options, EveryFieldReadsBackWhatWasSet) {
  for (const Option& o : table().options()) {
    Config config = table().defaults();
    OptionValue value = o.get(config);
    if (auto* flag = std::get_if<bool>(&value)) *flag = !*flag;
    if (auto* whole = std::get_if<int64_t>(&value)) *whole += 1;
    if (auto* real = std::get_if<double>(&value)) *real += 0.25;
    if (auto* list = std::get_if<std::vector<int64_t>>(&value)) *list = {3, 9};
    if (auto* text = std::get_if<std::string>(&value)) *text = o.choices.empty() ? "x" : o.choices.back();
    o.set(config, value);
    EXPECT_EQ(o.get(config), value) << o.key;
    for (const Option& other : table().options()) {
      if (other.key == o.key) continue;
      EXPECT_EQ(other.get(config), other.get(table().defaults())) << o.key << " moved " << other.key;
    }
  }
}

TEST(Options, EveryChoiceIsStored) {
  for (const Option& o : table().options()) {
    for (const std::string& choice : o.choices) {
      const Config config = store_values(table(), {{o.key, choice}});
      EXPECT_EQ(o.get(config), OptionValue(choice)) << o.key;
    }
  }
}

TEST(Options, Booleans) {
  for (const char* text : {"true", "on", "yes", "1", "True", "ON"})
    EXPECT_EQ(parsed("model.bias", text), OptionValue(true));
  for (const char* text : {"false", "off", "no", "0", "No"}) EXPECT_EQ(parsed("model.bias", text), OptionValue(false));
  EXPECT_EQ(refusal("model.bias", "2"), "must be true or false (or on, off, yes, no, 1, 0)");
}

TEST(Options, IntegersMayBeWrittenWithUnderscoresAndExponents) {
  EXPECT_EQ(parsed("train.steps", "5_000"), OptionValue(int64_t{5000}));
  EXPECT_EQ(parsed("train.steps", "5e3"), OptionValue(int64_t{5000}));
  EXPECT_EQ(parsed("train.steps", "1.5e3"), OptionValue(int64_t{1500}));
  EXPECT_EQ(parsed("train.steps", "+12"), OptionValue(int64_t{12}));
  EXPECT_EQ(parsed("attention.window_radius", "-1"), OptionValue(int64_t{-1}));
  EXPECT_EQ(parsed("train.seed", "9007199254740993"), OptionValue(int64_t{9007199254740993}));
}

TEST(Options, IntegersAreNeverCutToSize) {
  EXPECT_EQ(refusal("train.steps", "3.5"), "'3.5' is not a whole number");
  for (const char* text :
       {"5_", "_5", "5__0", "1e30", "0x10", "12a", "99999999999999999999", "nan", "inf", "+-1", "+"}) {
    EXPECT_NE(refusal("train.steps", text), "accepted") << text;
  }
}

TEST(Options, RealsMustBeFinite) {
  EXPECT_EQ(parsed("optim.lr", "3e-4"), OptionValue(3e-4));
  EXPECT_EQ(parsed("optim.lr", "1"), OptionValue(1.0));
  EXPECT_EQ(refusal("optim.lr", "nan"), "'nan' is not a finite number");
  EXPECT_EQ(refusal("optim.lr", "1e999"), "'1e999' is not a finite number");
  EXPECT_EQ(refusal("optim.lr", "1.0f"), "'1.0f' is not a finite number");
}

TEST(Options, LimitsAreNamed) {
  EXPECT_EQ(refusal("model.n_layers", "0"), "must be at least 1 and at most 10000");
  EXPECT_EQ(refusal("model.dropout", "1"), "must be at least 0 and less than 1");
  EXPECT_EQ(refusal("model.dropout", "-0.1"), "must be at least 0 and less than 1");
  EXPECT_EQ(refusal("optim.beta2", "1.0"), "must be at least 0 and less than 1");
  EXPECT_EQ(refusal("optim.lr", "0"), "must be greater than 0");
  EXPECT_EQ(refusal("optim.weight_decay", "-1"), "must be at least 0");
  EXPECT_EQ(refusal("position.shaw_clip", "0"), "must be at least 1");
  EXPECT_EQ(parsed("model.dropout", "0"), OptionValue(0.0));
}

TEST(Options, LimitsOfWholeNumbersAreExact) {
  EXPECT_EQ(parsed("train.seed", "9200000000000000000"), OptionValue(int64_t{9200000000000000000}));
  EXPECT_NE(refusal("train.seed", "9200000000000000001"), "accepted");
  EXPECT_NE(refusal("train.seed", "-1"), "accepted");
  const Option unlimited{.key = "a.b", .type = OptionType::integer};
  for (const int64_t x : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(parse_value(unlimited, std::to_string(x)), OptionValue(x));
  }
}

TEST(Options, ChoicesAreListed) {
  EXPECT_EQ(refusal("model.norm_placement", "PRE"), "must be one of pre, post, sandwich, deepnorm, none");
  EXPECT_EQ(refusal("position.encoding", "xpos"),
            "must be one of none, learned, sinusoidal, shaw, t5, alibi, rope, kerple");
}

TEST(Options, ListsOfIntegersTakeCommasAndRanges) {
  EXPECT_EQ(parsed("eval.lengths", "128, 256,512"), OptionValue(std::vector<int64_t>{128, 256, 512}));
  EXPECT_EQ(parsed("probe.seeds", "1..4, 9"), OptionValue(std::vector<int64_t>{1, 2, 3, 4, 9}));
  EXPECT_EQ(parsed("eval.lengths", ""), OptionValue(std::vector<int64_t>{}));
  EXPECT_EQ(refusal("probe.seeds", ""), "no value is given");
  EXPECT_EQ(refusal("eval.lengths", "1,,2"), "an item of the list is empty");
  EXPECT_EQ(refusal("eval.lengths", "8, 4, 8"), "8 stands there twice");
  EXPECT_EQ(refusal("probe.seeds", "5..1"), "the range 5..1 runs backwards");
  EXPECT_EQ(refusal("probe.seeds", "1..1000000000000"), "more than 10000 items");
  EXPECT_EQ(refusal("probe.seeds", "0..9000000000000000000"), "more than 10000 items");
  EXPECT_EQ(refusal("eval.lengths", "0"), "must be at least 1 and at most 16777216");
  EXPECT_EQ(refusal("probe.seeds", "1..x"), "'x' is not a whole number");
}

TEST(Options, AListForOneValueNamesTheSweep) {
  const std::string message = "takes one value here; 'ropewalk sweep' runs lists and ranges of values";
  EXPECT_EQ(refusal("model.n_layers", "2,4"), message);
  EXPECT_EQ(refusal("train.seed", "1..3"), message);
  EXPECT_EQ(refusal("position.encoding", "rope, alibi"), message);
  EXPECT_EQ(parsed("data.path", "../a,b.txt"), OptionValue(std::string("../a,b.txt")));
}

TEST(Options, ListsForSweepsAreCheckedValueByValue) {
  EXPECT_EQ(parse_list(option("train.seed"), "1..3, 7"), (std::vector<std::string>{"1", "2", "3", "7"}));
  EXPECT_EQ(parse_list(option("optim.lr"), "1e-3, 0.0003"), (std::vector<std::string>{"0.001", "0.0003"}));
  EXPECT_EQ(parse_list(option("model.bias"), "on,off"), (std::vector<std::string>{"true", "false"}));
  EXPECT_THROW(parse_list(option("optim.lr"), "1..3"), std::invalid_argument);
  EXPECT_THROW(parse_list(option("optim.lr"), "1e-3, 0.001"), std::invalid_argument);
  EXPECT_THROW(parse_list(option("model.norm"), "layernorm, x"), std::invalid_argument);
  EXPECT_THROW(parse_list(option("eval.lengths"), "1,2"), std::invalid_argument);
}

TEST(Options, PrintedValuesReadBackAsTheSameBits) {
  for (const double x : {0.1, 1e-8, 1.0 / 3, 5e-324, 1.7976931348623157e308, 10000.0}) {
    EXPECT_EQ(parse_value(Option{.key = "a.b", .type = OptionType::real}, format_value(x)), OptionValue(x));
  }
  EXPECT_EQ(format_value(std::vector<int64_t>{1, 2, 3, 4, 7, 8}), "1..4, 7, 8");
  EXPECT_EQ(format_value(std::vector<int64_t>{128, 192, 256}), "128, 192, 256");
}

TEST(Options, SuggestionsAreNear) {
  EXPECT_EQ(table().suggestion("model.n_layer"), "model.n_layers");
  EXPECT_EQ(table().suggestion("model.layers"), "model.n_layers");
  EXPECT_EQ(table().suggestion("trian.lr"), "optim.lr");
  EXPECT_EQ(table().suggestion("Model.D_Model"), "model.d_model");
  EXPECT_EQ(table().suggestion("train.warmup_step"), "optim.warmup_steps");
  EXPECT_EQ(table().suggestion("n_heads"), "model.n_heads");
  EXPECT_EQ(table().suggestion("attention.mla_kv_rnk"), "attention.mla_kv_rank");
  EXPECT_EQ(table().suggestion("x"), "");
  EXPECT_EQ(table().suggestion(std::string(100'000, 'a')), "");
}

TEST(Options, StoreRefusesWhatTheTableDoesNotKnow) {
  EXPECT_THROW(store_values(table(), {{"model.n_layer", "3"}}), std::invalid_argument);
  EXPECT_THROW(store_values(table(), {{"model.n_layers", "x"}}), std::invalid_argument);
}

TEST(Options, StoreKeepsDefaultsOfWhatIsNotGiven) {
  const Config config = store_values(table(), {{"model.n_layers", "7"}, {"position.rope_theta", "500"}});
  EXPECT_EQ(config.model.n_layers, 7);
  EXPECT_EQ(config.position.real("rope_theta"), 500.0);
  EXPECT_EQ(config.model.d_model, ModelConfig{}.d_model);
  EXPECT_EQ(config.position.integer("t5_buckets"), 32);
}

TEST(Options, SchemesThatShareAKeyShareItsField) {
  const std::vector<PositionSchemeInfo> schemes = {
      {"a", "one", {{.key = "clip", .default_value = int64_t{4}, .help = "clip"}}},
      {"b", "two", {{.key = "clip", .default_value = int64_t{4}, .help = "clip"}}},
      {"rope", "three", {}}};
  const OptionTable shared(schemes);
  const Option* clip = shared.find("position.clip");
  ASSERT_NE(clip, nullptr);
  EXPECT_TRUE(clip->applies_to("a"));
  EXPECT_TRUE(clip->applies_to("b"));
  EXPECT_FALSE(clip->applies_to("rope"));
}

TEST(Options, HelpAndMarkdownNameEveryKeyChoiceAndDefault) {
  const std::string help = options_help(table());
  const std::string markdown = options_markdown(table());
  for (const Option& o : table().options()) {
    EXPECT_NE(help.find(o.key), std::string::npos) << o.key;
    EXPECT_NE(markdown.find("| `" + o.name() + "` |"), std::string::npos) << o.key;
    for (const std::string& choice : o.choices) EXPECT_NE(help.find(choice), std::string::npos) << choice;
    EXPECT_NE(markdown.find("| " + (o.default_text.empty() ? "none" : o.default_text) + " |"), std::string::npos)
        << o.key;
  }
  EXPECT_NE(markdown.find("pre \\| post"), std::string::npos);
}

}  // namespace
}  // namespace ropewalk
