#include "data/tasks/task.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "tests/data/support.h"
#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

class EveryTask : public testing::TestWithParam<TaskKind> {
 protected:
  Task task_ = task_named(GetParam().name);
};

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::ValuesIn(task_kinds().begin(), task_kinds().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(EveryTask, CountedTargetsAreTheNextInputs) {
  for (const int64_t length : {1, 2, 5, 20, 200}) {
    for (int64_t index = 0; index < 20; ++index) {
      const Problem p = problem(task_, length, index);
      ASSERT_EQ(p.tokens.front(), kBegin);
      ASSERT_EQ(std::ranges::count(p.tokens, kSeparator), 1);
      ASSERT_EQ(std::ranges::count(p.tokens, kPad), 0);
      ASSERT_GE(p.targets.back(), 0);  // a row of exactly problem_tokens ends with the last target
      for (std::size_t i = 0; i + 1 < p.tokens.size(); ++i) {
        if (p.targets[i] != kIgnored) {
          ASSERT_EQ(p.targets[i], p.tokens[i + 1]);
        }
      }
    }
  }
}

TEST_P(EveryTask, NothingBeforeTheSeparatorCounts) {
  const Problem p = problem(task_, 12, 3);
  const auto separator = std::ranges::find(p.tokens, kSeparator) - p.tokens.begin();
  for (int64_t i = 0; i < separator; ++i) EXPECT_EQ(p.targets[i], kIgnored);
  EXPECT_GT(counted_targets(p.targets), 0);
}

TEST_P(EveryTask, PaddingFollowsAndDoesNotCount) {
  const Problem exact = problem(task_, 7, 5);
  const Problem padded = problem(task_, 7, 5, 9);
  const std::size_t n = exact.tokens.size();
  EXPECT_TRUE(std::equal(exact.tokens.begin(), exact.tokens.end(), padded.tokens.begin()));
  EXPECT_TRUE(std::equal(exact.targets.begin(), exact.targets.end(), padded.targets.begin()));
  for (std::size_t i = n; i < padded.tokens.size(); ++i) {
    EXPECT_EQ(padded.tokens[i], kPad);
    EXPECT_EQ(padded.targets[i], kIgnored);
  }
}

TEST_P(EveryTask, NamesOfTokensAreDistinctWords) {
  const std::vector<std::string> names = task_symbols(task_);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) EXPECT_EQ(name.find_first_of(" \t\n"), std::string::npos);
  const Tokenizer tokenizer = symbol_tokenizer(names);
  const Problem p = problem(task_, 6, 0);
  EXPECT_EQ(encode(tokenizer, decode(tokenizer, p.tokens)), p.tokens);
}

TEST_P(EveryTask, TrainingLengthsAreUniformBetweenTheirLimits) {
  task_.min_length = 3;
  task_.max_length = 8;
  const int64_t row = problem_tokens(task_, 8);
  std::vector<int32_t> tokens(row);
  std::vector<int32_t> targets(row);
  std::map<int64_t, int> counts;
  constexpr int kDraws = 12000;
  for (int64_t i = 0; i < kDraws; ++i) {
    const int64_t length = fill_training_problem(task_, 1, i / 10, i % 10, tokens, targets);
    ++counts[length];
    const int64_t used = row - std::ranges::count(tokens, kPad);
    const int64_t with_end = used - std::ranges::count(tokens, kEnd);
    ASSERT_EQ(with_end, problem_tokens(task_, length));
  }
  ASSERT_EQ(counts.size(), 6U);
  EXPECT_EQ(counts.begin()->first, 3);
  for (const auto& [length, count] : counts) EXPECT_NEAR(count, kDraws / 6, 220) << length;
}

TEST_P(EveryTask, TrainingAndEvaluationProblemsAreOfDisjointStreams) {
  // Long problems, so that equal ones can only come from equal random words. Evaluation is keyed by length where
  // training is keyed by step: steps run over that length too.
  task_.min_length = task_.max_length = 100;
  std::set<std::vector<int32_t>> seen;
  std::vector<int32_t> tokens(problem_tokens(task_, 100));
  std::vector<int32_t> targets(tokens.size());
  for (int64_t step = 0; step < 110; ++step) {
    for (int64_t index = 0; index < 5; ++index) {
      fill_training_problem(task_, 1, step, index, tokens, targets);
      EXPECT_TRUE(seen.insert(tokens).second);
    }
  }
  for (int64_t index = 0; index < 200; ++index) {
    fill_evaluation_problem(task_, 1, 100, index, tokens, targets);
    EXPECT_TRUE(seen.insert(tokens).second);
  }
}

TEST_P(EveryTask, AFixedTrainingSetIsDrawnFromEvenlyAndHasThatManyProblems) {
  task_.min_length = task_.max_length = 60;
  task_.train_problems = 10;
  std::map<std::vector<int32_t>, int> seen;
  std::vector<int32_t> tokens(problem_tokens(task_, 60));
  std::vector<int32_t> targets(tokens.size());
  for (int64_t i = 0; i < 2000; ++i) {
    fill_training_problem(task_, 1, i / 8, i % 8, tokens, targets);
    ++seen[tokens];
  }
  EXPECT_EQ(seen.size(), 10U);
  for (const auto& [problem, count] : seen) EXPECT_NEAR(count, 200, 70);
}

TEST_P(EveryTask, ProblemsAreReproducibleAndFollowTheSeed) {
  std::vector<int32_t> tokens(problem_tokens(task_, 50)), targets(tokens.size());
  std::vector<int32_t> again(tokens.size(), 1), again_targets(tokens.size(), 1);
  fill_evaluation_problem(task_, 5, 50, 3, tokens, targets);
  fill_evaluation_problem(task_, 5, 50, 3, again, again_targets);
  EXPECT_EQ(tokens, again);
  EXPECT_EQ(targets, again_targets);
  fill_evaluation_problem(task_, 6, 50, 3, again, again_targets);
  EXPECT_NE(tokens, again);
  fill_evaluation_problem(task_, 5, 50, 4, again, again_targets);
  EXPECT_NE(tokens, again);
}

TEST_P(EveryTask, ShortRowsAndImpossibleLengthsAreRefused) {
  const int64_t needed = problem_tokens(task_, 9);
  std::vector<int32_t> row(needed - 1);
  EXPECT_TRUE(contains(data_error([&] { fill_evaluation_problem(task_, 1, 9, 0, row, row); }),
                       {std::string(GetParam().name), "length 9", std::to_string(needed), std::to_string(needed - 1)}));
  for (const int64_t length : {int64_t{0}, int64_t{-5}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_TRUE(contains(data_error([&] { problem_tokens(task_, length); }), {std::to_string(length)}));
  }
}

TEST(TaskStreams, TheRandomWordsOfEvaluationAreNotThoseOfTrainingShiftedByTheDrawOfALength) {
  constexpr int64_t kLength = 100;
  Task task = task_named("copy");
  task.min_length = task.max_length = kLength;
  const Problem evaluated = problem(task, kLength, 0);
  std::vector<int32_t> tokens(problem_tokens(task, kLength));
  std::vector<int32_t> targets(tokens.size());
  // Evaluation is keyed by (length, index) where training is keyed by (step, index).
  fill_training_problem(task, 1, kLength, 0, tokens, targets);
  for (int64_t shift = 0; shift <= 4; ++shift) {
    EXPECT_FALSE(
        std::equal(evaluated.tokens.begin() + 1 + shift, evaluated.tokens.begin() + 1 + kLength, tokens.begin() + 1))
        << shift;
  }
}

std::string refusal(const DataConfig& config) {
  return data_error([&] { make_task(config); });
}

TEST(MakeTask, WrongKeysAreNamed) {
  EXPECT_TRUE(contains(refusal({.task = "chess"}), {"data.task = chess", "copy, reverse, sort, addition", "parity"}));
  EXPECT_TRUE(contains(refusal({.min_length = 0}), {"data.min_length = 0"}));
  EXPECT_TRUE(contains(refusal({.min_length = 9, .max_length = 8}), {"data.min_length = 9", "data.max_length = 8"}));
  EXPECT_TRUE(contains(refusal({.alphabet = 1}), {"data.alphabet = 1", "4096"}));
  EXPECT_TRUE(contains(refusal({.alphabet = -1}), {"data.alphabet = -1"}));
  EXPECT_TRUE(contains(refusal({.alphabet = 4097}), {"data.alphabet = 4097"}));
  EXPECT_TRUE(contains(refusal({.task = "parity", .alphabet = 3}), {"data.alphabet = 3", "parity"}));
  EXPECT_TRUE(contains(refusal({.digit_order = "random"}), {"data.digit_order = random"}));
  EXPECT_TRUE(contains(refusal({.gap = -1}), {"data.gap = -1"}));
  EXPECT_TRUE(contains(refusal({.train_problems = -1}), {"data.train_problems = -1"}));
}

TEST(MakeTask, KindsOutliveTheCall) {
  for (const TaskKind& kind : task_kinds()) EXPECT_EQ(task_named(kind.name).kind, &kind);
}

}  // namespace
}  // namespace ropewalk
