#include "data/tasks/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/data/support.h"
#include "tests/data/tasks/support.h"

namespace ropewalk {
namespace {

/// A pair as words: "a b c", "<begin> c b a", "c b a <end>"; padding is "_".
struct Words {
  std::string source;
  std::string inputs;
  std::string targets;
  int64_t source_length = 0;
};

std::string words(const Task& task, std::span<const int32_t> ids) {
  const std::vector<std::string> names = task_symbols(task);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(id == kPad || id == kIgnored ? "_" : names.at(id));
  return fmt::format("{}", fmt::join(out, " "));
}

Words evaluation_pair(const Task& task, int64_t length, int64_t index, int64_t padding = 0) {
  const PairSizes sizes = pair_tokens(task, length);
  PairBatch batch;
  batch.resize(1, sizes.source + padding, sizes.target + padding);
  std::ranges::fill(batch.sources, -7);
  std::ranges::fill(batch.inputs, -7);
  std::ranges::fill(batch.targets, -7);
  const int64_t source_length = fill_evaluation_pair(task, 1, length, index, batch.row(0));
  return {words(task, batch.sources), words(task, batch.inputs), words(task, batch.targets), source_length};
}

class EveryPair : public testing::TestWithParam<TaskKind> {
 protected:
  Task task_ = task_named(GetParam().name);
};

INSTANTIATE_TEST_SUITE_P(Tasks, EveryPair, testing::ValuesIn(task_kinds().begin(), task_kinds().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(EveryPair, HoldsTheProblemOfTheDecoder) {
  for (const int64_t length : {1, 2, 7, 33}) {
    for (int64_t index = 0; index < 10; ++index) {
      const Problem p = problem(task_, length, index);
      std::vector<std::string> prompt;
      std::vector<std::string> answer;
      for (std::size_t i = 0; i < p.input.size(); ++i) {
        if (i > 0 && p.targets[i - 1] == kIgnored) prompt.push_back(p.input[i]);
        if (p.targets[i] != kIgnored) answer.push_back(p.target[i]);
      }
      if (prompt.back() == GetParam().separator) prompt.pop_back();
      if (answer.back() != "<end>") answer.emplace_back("<end>");
      const Words pair = evaluation_pair(task_, length, index);
      EXPECT_EQ(pair.source, fmt::format("{}", fmt::join(prompt, " ")));
      EXPECT_EQ(pair.targets, fmt::format("{}", fmt::join(answer, " ")));
      EXPECT_EQ(pair.source_length, pair_tokens(task_, length).source);
      answer.pop_back();
      EXPECT_EQ(pair.inputs, fmt::format("<begin> {}", fmt::join(answer, " ")));
    }
  }
}

TEST_P(EveryPair, PaddingFollowsAndDoesNotCount) {
  const Words exact = evaluation_pair(task_, 5, 2);
  const Words padded = evaluation_pair(task_, 5, 2, 2);
  EXPECT_EQ(padded.source, exact.source + " _ _");
  EXPECT_EQ(padded.inputs, exact.inputs + " _ _");
  EXPECT_EQ(padded.targets, exact.targets + " _ _");
  EXPECT_EQ(padded.source_length, exact.source_length);
}

TEST_P(EveryPair, TrainingPairsAreTheTrainingProblems) {
  task_.min_length = 2;
  task_.max_length = 6;
  const int64_t row = problem_tokens(task_, 6);
  const PairSizes widest = pair_tokens(task_, 6);
  PairBatch batch;
  batch.resize(1, widest.source, widest.target);
  std::vector<int32_t> tokens(row);
  std::vector<int32_t> targets(row);
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t length = fill_training_problem(task_, 4, i / 8, i % 8, tokens, targets);
    EXPECT_EQ(fill_training_pair(task_, 4, i / 8, i % 8, batch.row(0)), pair_tokens(task_, length).source);
    std::erase_if(targets, [](int32_t target) { return target == kIgnored || target == kEnd; });
    targets.push_back(kEnd);
    EXPECT_EQ(batch.counted(), pair_tokens(task_, length).target);
    EXPECT_TRUE(std::equal(targets.begin(), targets.end(), batch.targets.begin()));
    targets.assign(row, 0);
  }
}

TEST_P(EveryPair, ARowTooShortIsRefused) {
  const PairSizes sizes = pair_tokens(task_, 4);
  PairBatch batch;
  batch.resize(1, sizes.source - 1, sizes.target);
  EXPECT_TRUE(contains(data_error([&] { fill_evaluation_pair(task_, 1, 4, 0, batch.row(0)); }),
                       {std::string(GetParam().name), "the source", "length 4", std::to_string(sizes.source)}));
  batch.resize(1, sizes.source, sizes.target - 1);
  EXPECT_TRUE(contains(data_error([&] { fill_evaluation_pair(task_, 1, 4, 0, batch.row(0)); }),
                       {std::string(GetParam().name), "the target", "length 4", std::to_string(sizes.target)}));
  EXPECT_NE(data_error([&] { pair_tokens(task_, 0); }), "");
}

TEST(Pairs, SourcesAndTargetsAreInWordsWhatTheTaskSays) {
  const auto split = [](const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();
         at = text.find(' ', at) == std::string::npos ? text.size() : text.find(' ', at) + 1) {
      out.push_back(text.substr(at, text.find(' ', at) - at));
    }
    return out;
  };
  const Words reversed = evaluation_pair(task_named("reverse"), 6, 0);
  std::vector<std::string> list = split(reversed.source);
  std::ranges::reverse(list);
  EXPECT_EQ(reversed.targets, fmt::format("{} <end>", fmt::join(list, " ")));

  const Words sum = evaluation_pair(task_named("addition"), 3, 0);
  std::vector<std::string> digits = split(sum.source);
  ASSERT_EQ(digits.size(), 7U);
  EXPECT_EQ(digits[3], "+");
  const auto number = [](const std::vector<std::string>& d, std::size_t first, std::size_t count) {
    std::string text;
    for (std::size_t i = first; i < first + count; ++i) text += d[i];
    return std::stoi(text);
  };
  EXPECT_EQ(number(split(sum.targets), 0, 4), number(digits, 0, 3) + number(digits, 4, 3));

  // k v k v k v > q q q, and the value of each q.
  const Words recall = evaluation_pair(task_named("associative_recall"), 3, 0);
  const std::vector<std::string> source = split(recall.source);
  const std::vector<std::string> target = split(recall.targets);
  ASSERT_EQ(source.size(), 10U);
  ASSERT_EQ(target.size(), 4U);
  EXPECT_EQ(source[6], ">");
  for (std::size_t q = 0; q < 3; ++q) {
    const auto key = std::find(source.begin(), source.begin() + 6, source[7 + q]);
    EXPECT_EQ(target[q], *(key + 1));
  }
}

}  // namespace
}  // namespace ropewalk
