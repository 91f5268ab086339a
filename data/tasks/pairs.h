#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"
#include "data/tasks/task.h"

namespace ropewalk {

// The same problems as source -> target pairs for an encoder-decoder. The source is the prompt without <begin> and
// without a separator at its end, which say nothing where prompt and answer stand apart; associative_recall's holds all
// queries after the pairs. The target is the answer and <end>, in every task: that is how the decoder says it is done.

/// Positions that the source and the target (its <end> counted) of a problem of this length take. Throws DataError as
/// problem_tokens() does.
PairSizes pair_tokens(const Task& task, int64_t length);

/// The problem that fill_training_problem() gives for the same coordinates, as a pair. Pads the rest of the row and
/// returns the length of the source. Throws DataError where a part of the row is too short.
int64_t fill_training_pair(const Task& task, uint64_t seed, int64_t step, int64_t index, const PairRow& row);

/// The problem that fill_evaluation_problem() gives, as a pair.
int64_t fill_evaluation_pair(const Task& task, uint64_t seed, int64_t length, int64_t index, const PairRow& row);

}  // namespace ropewalk
