#include "experiments/comparison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "results_fixture.h"

namespace ropewalk {
namespace {

using testing_support::ended_run;
using testing_support::finished_run;
using Tiers = std::vector<std::vector<std::size_t>>;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Three variants over `seeds` seeds that are far apart from one another. c is ahead of a by about 0.1 in every seed;
/// b's difference to both changes its sign.
std::vector<RunResult> three_variants(int64_t seeds) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const double level = 2 + static_cast<double>(seed);
    const double noise = 0.01 * static_cast<double>(seed % 3);
    const double swing = seed % 2 == 0 ? 0.4 : -0.5;
    runs.push_back(finished_run("a", seed, {level + 0.1 + noise}));
    runs.push_back(finished_run("b", seed, {level + swing}));
    runs.push_back(finished_run("c", seed, {level - noise}));
  }
  return runs;
}

TEST(Comparison, CellsAreMeanAndSpreadOverSeeds) {
  const std::vector<RunResult> runs = {finished_run("rope", 1, {1.0, 2.0}), finished_run("rope", 2, {1.2, 2.0}),
                                       finished_run("alibi", 1, {1.5, 12.345})};
  const Comparison comparison = compare(runs);
  ASSERT_EQ(comparison.columns.size(), 2U);
  EXPECT_EQ(multiple_text(comparison.columns[0].multiple), "1x");
  EXPECT_EQ(multiple_text(comparison.columns[1].multiple), "1.5x");
  EXPECT_EQ(comparison.columns[1].lengths, std::vector<int64_t>{96});
  ASSERT_EQ(comparison.tables.size(), 1U);
  const auto& cells = comparison.tables[0].cells;
  EXPECT_EQ(cell_text(cells[0][0]), "1.100 ±0.141");
  EXPECT_EQ(cell_text(cells[0][1]), "2.000 ±0.000");
  EXPECT_EQ(cell_text(cells[1][0]), "1.500");
  EXPECT_EQ(cell_text(cells[1][1]), "12.35");
  EXPECT_EQ(comparison.train_lengths, std::vector<int64_t>{64});
}

TEST(Comparison, ALearnedTableEndsButOtherGapsAreCalledWhatTheyAre) {
  std::vector<RunResult> runs = {finished_run("learned", 1, {2.0, NAN, NAN}), finished_run("none", 1, {2.0, 3.0, NAN})};
  runs[0].positions_end = true;
  const Comparison comparison = compare(runs);
  EXPECT_EQ(cell_text(comparison.tables[0].cells[0][1]), "beyond its positions");
  EXPECT_EQ(cell_text(comparison.tables[0].cells[1][2]), "not evaluable");
  const std::string text = comparison_text(comparison, {});
  EXPECT_TRUE(holds(text, "\nlearned 1/1  2.000  beyond its positions\n")) << text;
  EXPECT_TRUE(holds(text, "variant runs 1x     1.5x   2x\n")) << text;
  EXPECT_TRUE(holds(text, "             64     96     128\n")) << text;
  EXPECT_TRUE(holds(text, "same_tokens: every length scores the same tokens")) << text;
}

TEST(Comparison, DivergedAndFailedRunsAreCountedButNotAveraged) {
  std::vector<RunResult> runs = {finished_run("post", 1, {2.0}),
                                 ended_run("post", 2, "diverged"),
                                 ended_run("post", 3, "failed", "killed by signal 9 (Killed)"),
                                 ended_run("post", 4, "failed", "killed by signal 9 (Killed)"),
                                 ended_run("post", 5, "interrupted"),
                                 ended_run("post", 6, "waiting")};
  runs[1].divergence = {{40, "blocks.3.ffn", "gradient"}};
  runs.push_back(finished_run("post", 7, {99.0}));
  runs.back().divergence = {{12, "blocks.0.attention", "value"}};  // went on after it
  const Comparison comparison = compare(runs);
  ASSERT_EQ(comparison.variants.size(), 1U);
  const ComparedVariant& post = comparison.variants[0];
  EXPECT_EQ(post.runs, 7U);
  EXPECT_EQ(post.counted, 1U);
  EXPECT_EQ(post.diverged, 2U);
  EXPECT_EQ(post.failed, 2U);
  EXPECT_EQ(post.unfinished, 2U);
  EXPECT_EQ(cell_text(comparison.tables[0].cells[0][0]), "2.000");
  EXPECT_EQ(comparison.notes,
            (std::vector<std::string>{"post-s2 diverged at step 40, first in blocks.3.ffn (gradient)",
                                      "post-s3, post-s4 failed: killed by signal 9 (Killed)", "post-s5 interrupted",
                                      "post-s7 diverged at step 12, first in blocks.0.attention (value)"}));
  EXPECT_TRUE(holds(comparison_text(comparison, {}), "post    1/7  2.000\n"));
}

TEST(Comparison, AVariantWithoutResultsSaysWhy) {
  const std::vector<RunResult> runs = {finished_run("pre", 1, {2.0}), ended_run("post", 1, "diverged")};
  EXPECT_TRUE(holds(comparison_text(compare(runs), {}), "post    0/1         1 diverged\n"));
  const std::vector<RunResult> none = {ended_run("post", 1, "diverged"), ended_run("post", 2, "diverged")};
  EXPECT_TRUE(holds(comparison_text(compare(none), {}), "none of 2 runs has results"))
      << comparison_text(compare(none), {});
  EXPECT_EQ(compare({}).variants.size(), 0U);
}

TEST(Comparison, ColumnsAreMultiplesSoThatContextsCompare) {
  std::vector<RunResult> runs = {finished_run("short", 1, {2.0, 2.5, 3.0}), finished_run("long", 1, {1.0, 1.5})};
  runs[1].train_length = 128;
  runs[1].lengths = {128, 192};
  const Comparison comparison = compare(runs);
  ASSERT_EQ(comparison.columns.size(), 3U);
  EXPECT_EQ(comparison.columns[0].lengths, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(cell_text(comparison.tables[0].cells[1][1]), "1.500");
  EXPECT_EQ(cell_text(comparison.tables[0].cells[1][2]), "");
}

TEST(Comparison, TasksCompareExactMatchAndAccuracyWhereMoreIsBetter) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    for (const auto& [name, right] : {std::pair{"good", 0.9}, {"bad", 0.2}}) {
      RunResult run = finished_run(name, seed, {1.0});
      run.exact_match = {right + 0.01 * static_cast<double>(seed)};
      run.accuracy = {right};
      runs.push_back(run);
    }
  }
  const Comparison comparison = compare(runs);
  ASSERT_EQ(comparison.tables.size(), 3U);
  EXPECT_EQ(comparison.tables[1].metric, Metric::exact_match);
  EXPECT_EQ(cell_text(comparison.tables[1].cells[0][0]), "0.920 ±0.010");
  EXPECT_EQ(rank(comparison.tables[0], 0).tiers, (Tiers{{0, 1}}));
  EXPECT_EQ(rank(comparison.tables[1], 0).tiers, (Tiers{{0}, {1}}));
  EXPECT_EQ(rank(comparison.tables[2], 0).tiers, (Tiers{{0}, {1}}));
}

TEST(Ranking, SeparatesByPairsAcrossSeedsThatAreFarApart) {
  std::vector<RunResult> runs = three_variants(6);
  std::erase_if(runs, [](const RunResult& run) { return run.variant == "b"; });
  const Ranking ranking = rank(compare(runs).tables[0], 0);  // a, c
  EXPECT_EQ(ranking.tiers, (Tiers{{1}, {0}}));
  EXPECT_EQ(ranking.fewest_pairs, 6U);
  EXPECT_EQ(ranking.most_pairs, 6U);
}

TEST(Ranking, NeverPutsInOrderWhatTheIntervalDoesNotSeparate) {
  const Comparison comparison = compare(three_variants(6));
  const Ranking ranking = rank(comparison.tables[0], 0);
  ASSERT_EQ(ranking.tiers.size(), 1U) << "b is separated from neither, so that no place can be given";
  EXPECT_EQ(ranking.tiers[0].size(), 3U);
  EXPECT_EQ(ranking.told_apart, (std::vector<std::pair<std::size_t, std::size_t>>{{2, 0}}));
  const std::string text = comparison_text(comparison, {});
  EXPECT_TRUE(holds(text, "nothing has a place of its own")) << text;
  EXPECT_TRUE(holds(text, "told apart all the same: c before a")) << text;
}

TEST(Ranking, FewerThanThreeSeedsAreTooFew) {
  const Comparison comparison = compare(three_variants(2));
  const Ranking ranking = rank(comparison.tables[0], 0);
  EXPECT_TRUE(ranking.tiers.empty());
  EXPECT_EQ(ranking.too_few_seeds.size(), 3U);
  const std::string text = comparison_text(comparison, {});
  EXPECT_TRUE(holds(text, "2 seeds are too few to rank; at least 3 are needed")) << text;
  EXPECT_TRUE(holds(text, "order of means, not a ranking: b, c, a")) << text;
  EXPECT_FALSE(holds(text, "1. "));
}

TEST(Ranking, VariantsWithTooFewSeedsStandAside) {
  std::vector<RunResult> runs = three_variants(4);
  std::erase_if(runs, [](const RunResult& run) { return run.variant == "b" && run.seed > 2; });
  const Comparison comparison = compare(runs);
  const Ranking ranking = rank(comparison.tables[0], 0);
  EXPECT_EQ(ranking.tiers, (Tiers{{2}, {0}}));
  EXPECT_EQ(ranking.too_few_seeds, std::vector<std::size_t>{1});
  const std::string text = comparison_text(comparison, {});
  EXPECT_TRUE(holds(text, "1. c  2. a")) << text;
  EXPECT_TRUE(holds(text, "not ranked, fewer than 3 seeds: b")) << text;
}

TEST(Ranking, SeedsThatAreNotSharedPairNothing) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    runs.push_back(finished_run("a", seed, {1.0}));
    runs.push_back(finished_run("b", seed + 10, {5.0 + 0.001 * static_cast<double>(seed)}));
  }
  const Ranking ranking = rank(compare(runs).tables[0], 0);
  EXPECT_EQ(ranking.tiers, (Tiers{{0, 1}}));
  EXPECT_EQ(ranking.most_pairs, 0U);
}

TEST(Ranking, CountsAPairWithoutCommonSeedsAmongTheFewest) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    runs.push_back(finished_run("a", seed, {1.0}));
    runs.push_back(finished_run("b", seed + 10, {2.0}));
    runs.push_back(finished_run("c", seed, {3.0}));
    runs.push_back(finished_run("c", seed + 10, {3.0}));
  }
  const Comparison comparison = compare(runs);
  const Ranking ranking = rank(comparison.tables[0], 0);
  EXPECT_EQ(ranking.fewest_pairs, 0U);
  EXPECT_EQ(ranking.most_pairs, 3U);
  EXPECT_EQ(ranking.tiers, (Tiers{{0, 1}, {2}}));
  EXPECT_TRUE(holds(ranking_lines(comparison, comparison.tables[0]).front(), "(n = 0 to 3)"));
}

TEST(Comparison, TextHasNoEscapesUnlessColourIsWanted) {
  const Comparison comparison = compare(three_variants(3));
  EXPECT_FALSE(holds(comparison_text(comparison, {}), "\x1b"));
  EXPECT_TRUE(holds(comparison_text(comparison, {.colour = true}), "\x1b[1m"));
}

TEST(Comparison, NonOverlappingWindowsComeWithTheirCaveat) {
  std::vector<RunResult> runs = {finished_run("a", 1, {2.0})};
  runs[0].protocol = "non_overlapping";
  std::string text = comparison_text(compare(runs), {});
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_TRUE(holds(text, "longer windows look better by themselves, as fewer tokens stand early in one")) << text;
}

}  // namespace
}  // namespace ropewalk
