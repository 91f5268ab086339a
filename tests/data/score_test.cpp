#include "data/score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace ropewalk {
namespace {

const std::vector<int32_t> kTargets = {-1, 5,  6,  7,   //
                                       -1, -1, 8,  -1,  //
                                       -1, -1, -1, -1};

TEST(Score, CountsExactProblemsAndRightTokens) {
  const std::vector<int32_t> predicted = {9, 5, 0, 7, 9, 9, 8, 9, -1, -1, -1, -1};
  const AnswerScore score = score_answers(predicted, kTargets, 4);
  EXPECT_EQ(score.problems, 2);  // the last row holds no answer
  EXPECT_EQ(score.exact, 1);
  EXPECT_EQ(score.tokens, 4);
  EXPECT_EQ(score.correct, 3);
  EXPECT_DOUBLE_EQ(score.exact_match(), 0.5);
  EXPECT_DOUBLE_EQ(score.token_accuracy(), 0.75);
}

TEST(Score, AddsUpOverBatches) {
  const std::vector<int32_t> wrong(12, 0);
  AnswerScore score = score_answers(kTargets, kTargets, 4);
  score += score_answers(wrong, kTargets, 4);
  EXPECT_EQ(score.problems, 4);
  EXPECT_DOUBLE_EQ(score.exact_match(), 0.5);
  EXPECT_DOUBLE_EQ(score.token_accuracy(), 0.5);
}

TEST(Score, NothingScoredIsNotANumber) {
  EXPECT_TRUE(std::isnan(AnswerScore{}.exact_match()));
  EXPECT_TRUE(std::isnan(AnswerScore{}.token_accuracy()));
}

TEST(Score, RefusesSizesThatDoNotGoTogether) {
  const std::vector<int32_t> few(11);
  EXPECT_THROW(score_answers(few, kTargets, 4), std::invalid_argument);
  EXPECT_THROW(score_answers(kTargets, kTargets, 5), std::invalid_argument);
  EXPECT_THROW(score_answers(kTargets, kTargets, 0), std::invalid_argument);
}

}  // namespace
}  // namespace ropewalk
