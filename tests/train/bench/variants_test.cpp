#include "train/bench/variants.h"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "layers/positions/scheme.h"
#include "small_subject.h"
#include "train/config_error.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(Variants, AnEncodingThatTheAttentionRefusesIsLeftOut) {
  const SubjectWith small = small_subject_with();
  const SubjectWith latent = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"attention.kind=mla", "attention.mla_kv_rank=4", "attention.mla_rope_dims=2"});
    return small(more);
  };
  const std::vector<std::string> legal = legal_encodings(latent);
  const std::set<std::string> names(legal.begin(), legal.end());
  EXPECT_EQ(names.size() + 2, position_schemes().size());
  EXPECT_FALSE(names.contains("shaw") || names.contains("xl"));
  EXPECT_EQ(legal_encodings(small).size(), position_schemes().size());
  EXPECT_THROW(legal_encodings([&](std::vector<std::string> more) {
                 more.emplace_back("model.n_heads=0");
                 return small(more);
               }),
               ConfigError);
}

TEST(Variants, EveryPositionSchemeStandsBesideNone) {
  std::vector<std::string> said;
  const std::vector<VariantTable> tables =
      bench_variants(small_subject_with(), 0.01, [&](const std::string& what) { said.push_back(what); });
  EXPECT_EQ(said, (std::vector<std::string>{"position.encoding", "model.norm", "logged at each step"}));
  ASSERT_EQ(tables.size(), 3U);
  EXPECT_EQ(tables[0].group, "position.encoding");
  EXPECT_EQ(tables[1].group, "model.norm");
  EXPECT_EQ(tables[2].group, "logged at each step");
  EXPECT_EQ(tables[0].rows.front().name, "none");
  std::set<std::string> measured;
  for (const VariantTable::Row& row : tables[0].rows) measured.insert(row.name);
  std::set<std::string> schemes;
  for (const PositionSchemeRow& row : position_schemes()) schemes.insert(row.info.name);
  EXPECT_EQ(measured, schemes);
  EXPECT_EQ(tables[1].rows.size(), 2U);
  EXPECT_EQ(tables[2].rows.size(), 4U);
  for (const VariantTable& table : tables) {
    EXPECT_GE(table.rounds, 5);
    EXPECT_EQ(table.rows.front().ratio.median, 1) << table.group;
    for (const VariantTable::Row& row : table.rows) {
      EXPECT_GT(row.ms.median, 0) << row.name;
      EXPECT_GT(row.ratio.median, 0) << row.name;
    }
  }
  const nlohmann::json json = nlohmann::json::parse(to_json(tables));
  EXPECT_EQ(json.at("tables")[0].at("rows").size(), schemes.size());
  const std::string text = to_text(tables);
  for (const std::string& scheme : schemes) EXPECT_NE(text.find("\n  " + scheme + " "), std::string::npos) << scheme;
}

TEST(Variants, TheTextSaysWhatARatioIsAndWhichOnesSayNothing) {
  VariantTable table{.subject = "XS", .group = "model.norm", .rounds = 3};
  table.rows = {{.name = "layernorm", .ratio = spread_of({1, 1, 1})},
                {.name = "rmsnorm", .ratio = spread_of({0.6, 0.9, 1.4})}};
  const std::string text = to_text({table});
  EXPECT_NE(text.find("1.000  1.000 to 1.000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0.900  0.750 to 1.150  noisy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ratio: time over that of the first row, within a round"), std::string::npos) << text;
  EXPECT_NE(text.find(kNoisyRatio), std::string::npos) << text;
  const nlohmann::json rows = nlohmann::json::parse(to_json({table})).at("tables").at(0).at("rows");
  EXPECT_EQ(rows[0].at("ratio_noisy"), false);
  EXPECT_EQ(rows[1].at("ratio_noisy"), true);
  EXPECT_EQ(rows[1].at("ratio_least"), 0.6);
  EXPECT_EQ(rows[1].at("ratio_greatest"), 1.4);
}

}  // namespace
}  // namespace ropewalk
