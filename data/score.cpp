#include "data/score.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ropewalk {

AnswerScore& AnswerScore::operator+=(const AnswerScore& other) {
  problems += other.problems;
  exact += other.exact;
  tokens += other.tokens;
  correct += other.correct;
  return *this;
}

AnswerScore score_answers(std::span<const int32_t> predicted, std::span<const int32_t> targets, int64_t row_length) {
  const auto size = static_cast<int64_t>(targets.size());
  if (predicted.size() != targets.size() || row_length < 1 || size % row_length != 0) {
    throw std::invalid_argument(fmt::format("score_answers: {} predictions for {} targets in rows of {}",
                                            predicted.size(), targets.size(), row_length));
  }
  AnswerScore score;
  for (int64_t row = 0; row < size; row += row_length) {
    int64_t counted = 0;
    int64_t correct = 0;
    for (int64_t i = row; i < row + row_length; ++i) {
      if (targets[i] < 0) continue;
      ++counted;
      if (predicted[i] == targets[i]) ++correct;
    }
    score +=
        {.problems = counted > 0, .exact = counted > 0 && correct == counted, .tokens = counted, .correct = correct};
  }
  return score;
}

}  // namespace ropewalk
