#include "train/bench/variants.h"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "layers/positions/scheme.h"
#include "small_subject.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(Variants, EveryPositionSchemeStandsBesideNone) {
  const std::vector<VariantTable> tables = bench_variants(small_subject_with(), 0.01);
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
    EXPECT_EQ(table.rows.front().ratio, 1) << table.group;
    for (const VariantTable::Row& row : table.rows) {
      EXPECT_GT(row.ms, 0) << row.name;
      EXPECT_GT(row.ratio, 0) << row.name;
    }
  }
  const nlohmann::json json = nlohmann::json::parse(to_json(tables));
  EXPECT_EQ(json.at("tables")[0].at("rows").size(), schemes.size());
  const std::string text = to_text(tables);
  for (const std::string& scheme : schemes) EXPECT_NE(text.find("\n  " + scheme + " "), std::string::npos) << scheme;
}

}  // namespace
}  // namespace ropewalk
