#pragma once

#include <cstdint>
#include <span>

namespace ropewalk {

/// How many answers are right, over any number of problems.
struct AnswerScore {
  int64_t problems = 0;
  int64_t exact = 0;    ///< problems of which every counted token is right
  int64_t tokens = 0;   ///< counted tokens
  int64_t correct = 0;  ///< right ones among them

  /// Shares in [0, 1]; NaN where nothing was scored. A high token accuracy beside no exact match is common.
  double exact_match() const { return static_cast<double>(exact) / static_cast<double>(problems); }
  double token_accuracy() const { return static_cast<double>(correct) / static_cast<double>(tokens); }

  AnswerScore& operator+=(const AnswerScore& other);
};

/// Scores predictions (the most likely token of each position, teacher forced) against targets; both are [rows,
/// row_length]. Predictions where the target is not counted are not looked at; rows without a counted target are no
/// problems. Throws std::invalid_argument if the sizes do not go together.
AnswerScore score_answers(std::span<const int32_t> predicted, std::span<const int32_t> targets, int64_t row_length);

}  // namespace ropewalk
