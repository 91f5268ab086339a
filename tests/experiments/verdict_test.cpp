#include "experiments/verdict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "results_fixture.h"

namespace ropewalk {
namespace {

using testing_support::ended_run;
using testing_support::finished_run;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Verdict verdict_of(const std::vector<RunResult>& runs) {
  return verdict(runs, compare(runs));
}

/// a is the best at 1x, c at 2x; at 1.5x a and c differ by what the seeds do. Seeds are far apart.
std::vector<RunResult> crossing(int64_t seeds) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const double level = 2 + static_cast<double>(seed);
    const double noise = 0.01 * static_cast<double>(seed % 3);
    const double swing = seed % 2 == 0 ? 0.05 : -0.05;
    runs.push_back(finished_run("a", seed, {level, level + swing, level + 0.5}));
    runs.push_back(finished_run("b", seed, {level + 1 + noise, level + 1 + noise, level + 1 + noise}));
    runs.push_back(finished_run("c", seed, {level + 0.3 + noise, level, level + 0.1 + noise}));
  }
  return runs;
}

TEST(Verdict, SaysWhereWhichVariantIsBestAndByHowMuch) {
  const Verdict said = verdict_of(crossing(4));
  EXPECT_EQ(said.lead, "By held-out loss, a is best at 1x; a and c share the first place at 1.5x; c is best at 2x.");
  ASSERT_EQ(said.findings.size(), 3U);
  // The mean of 0.31, 0.32, 0.30, 0.31 and t(0.975, 3) * sd / 2 = 3.1824 * 0.0081650 / 2 around it.
  EXPECT_EQ(
      said.findings[0],
      "Held-out loss at 1x (64 tokens): a is best with 4.500 nats a token, 0.310 less than c, the nearest by mean "
      "(95 % interval 0.297 to 0.323, n = 4 seeds).");
  EXPECT_EQ(said.findings[1],
            "Held-out loss at 1.5x (96 tokens): a and c come before all others, and the data do not give them an order "
            "(means 4.500 to 4.500 nats a token).");
  EXPECT_TRUE(holds(said.findings[2], "at 2x (128 tokens): c is best"));
  EXPECT_TRUE(holds(said.method, "paired over the seeds that finished in both variants (n = 4)"));
  EXPECT_TRUE(holds(said.method, "two-sided 95 % t intervals"));
  EXPECT_TRUE(holds(said.method, "Protocol same_tokens"));
  EXPECT_TRUE(said.cautions.empty());
}

TEST(Verdict, NothingIsRankedWithFewerThanThreeSeeds) {
  for (const int64_t seeds : {1, 2}) {
    const Verdict said = verdict_of(crossing(seeds));
    EXPECT_TRUE(holds(said.lead, "Nothing is ranked: " + std::to_string(seeds) + " seed"));
    EXPECT_TRUE(said.findings.empty());
    for (const std::string& text : {said.lead, said.method}) {
      EXPECT_FALSE(holds(text, "best")) << text;
      EXPECT_FALSE(holds(text, "first place")) << text;
    }
  }
}

TEST(Verdict, NeverNamesAWinnerThatTheSeedsDoNotSeparate) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= 5; ++seed) {
    const double swing = seed % 2 == 0 ? 0.4 : -0.5;
    runs.push_back(finished_run("a", seed, {2.0 + swing}));
    runs.push_back(finished_run("b", seed, {2.0}));
  }
  const Verdict said = verdict_of(runs);
  EXPECT_EQ(said.lead, "By held-out loss, no variant is separated from all others at 1x.");
  EXPECT_FALSE(holds(said.findings.at(0), "best"));
}

TEST(Verdict, SaysWhatDivergedWhereItBeganAndThatMeansAreOfTheSurvivors) {
  std::vector<RunResult> runs = crossing(4);
  runs[0] = ended_run("a", 1, "diverged");
  runs[0].divergence = {{40, "blocks.3.ffn", "gradient"}};
  runs.push_back(ended_run("d", 1, "diverged"));
  runs.back().divergence = {{52, "blocks.1.ffn", "value"}};
  runs.push_back(ended_run("d", 2, "diverged"));
  runs.back().divergence = {{31, "blocks.0.attention", "gradient"}};
  const Verdict said = verdict_of(runs);
  ASSERT_EQ(said.cautions.size(), 2U);
  EXPECT_EQ(said.cautions[0],
            "a: 1 of 4 runs diverged at step 40, first in blocks.3.ffn (gradient), in run a-s1; its means hold only "
            "the 3 that did not.");
  EXPECT_EQ(said.cautions[1],
            "d: 2 of 2 runs diverged, earliest at step 31, first in blocks.0.attention (gradient), in run d-s2.");
  EXPECT_TRUE(holds(said.method, "(n = 3 to 4)"));
}

TEST(Verdict, SaysWhatIsMissingFailedOrStillGoingOn) {
  std::vector<RunResult> runs = crossing(3);
  for (int64_t seed = 1; seed <= 3; ++seed) {
    RunResult learned = finished_run("learned", seed, {9.0 + 0.001 * static_cast<double>(seed), NAN, NAN});
    learned.positions_end = true;
    runs.push_back(learned);
  }
  runs.push_back(ended_run("e", 1, "failed", "out of memory"));
  runs.push_back(ended_run("e", 2, "running"));
  runs.push_back(ended_run("e", 3, "killed"));
  const Verdict said = verdict_of(runs);
  ASSERT_EQ(said.cautions.size(), 3U);
  EXPECT_EQ(said.cautions[0], "e: 1 of 3 runs failed.");
  EXPECT_EQ(said.cautions[1], "learned: beyond its positions at 1.5x and 2x.");
  EXPECT_EQ(said.cautions[2], "2 runs are not finished; what is said here may change.");
}

TEST(Verdict, TasksAreJudgedByWhatIsRight) {
  std::vector<RunResult> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    for (const auto& [name, right] : {std::pair{"good", 0.9}, {"bad", 0.2}}) {
      RunResult run = finished_run(name, seed, {1.0});
      run.exact_match = {right + 0.01 * static_cast<double>(seed)};
      run.accuracy = {right + 0.05};
      runs.push_back(run);
    }
  }
  const Verdict said = verdict_of(runs);
  EXPECT_EQ(said.lead, "By exact match, good is best at 1x. By token accuracy, good is best at 1x.");
  EXPECT_TRUE(holds(said.findings.at(0), "good is best with 0.920, 0.700 more than bad"));
}

TEST(Verdict, DifferentProtocolsAndDataAreNotCompared) {
  std::vector<RunResult> runs = crossing(3);
  for (RunResult& run : runs) run.configuration["data.path"] = run.variant == "b" ? "other.txt" : "a.txt";
  EXPECT_TRUE(holds(verdict_of(runs).cautions.at(0), "differ in data.path, so that"));
  runs[0].protocol = "sliding";
  const Verdict said = verdict_of(runs);
  EXPECT_TRUE(holds(said.lead, "Nothing is ranked: the runs were evaluated by different protocols"));
  EXPECT_TRUE(said.findings.empty());
  EXPECT_TRUE(holds(comparison_text(compare(runs), {}), "Nothing is ranked"));
}

TEST(Verdict, OneVariantOrNoneIsSaidToBeThat) {
  const std::vector<RunResult> one = {finished_run("a", 1, {2.0, 2.5, 3.0})};
  EXPECT_EQ(verdict_of(one).lead,
            "a: held-out loss 2.000 nats a token at 1x (64 tokens) and held-out loss 3.000 nats a token at 2x (128 "
            "tokens) (n = 1 seed). There is nothing to compare it with.");
  EXPECT_EQ(verdict_of({ended_run("a", 1, "running")}).lead, "None of 1 run has results.");
  EXPECT_EQ(verdict_of({}).lead, "There are no runs.");
}

TEST(Verdict, DifferingKeysLeaveOutTheSeedAndWhatIsNotKnown) {
  std::vector<RunResult> runs = {ended_run("a", 1, "running"), ended_run("b", 2, "running"),
                                 ended_run("c", 3, "waiting")};
  runs[0].configuration = {{"optim.lr", "0.001"}, {"train.seed", "1"}, {"model.n_layers", "2"}};
  runs[1].configuration = {{"optim.lr", "0.002"}, {"train.seed", "2"}, {"model.n_layers", "2"}};
  EXPECT_EQ(differing_keys(runs), std::vector<std::string>{"optim.lr"});
}

}  // namespace
}  // namespace ropewalk
