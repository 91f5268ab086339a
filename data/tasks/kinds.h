#pragma once

#include "data/tasks/task.h"

namespace ropewalk {

// The rows of the table of tasks, each defined in the file of its name (copy, reverse and sort in lists.cpp).
extern const TaskKind kCopyTask;
extern const TaskKind kReverseTask;
extern const TaskKind kSortTask;
extern const TaskKind kAdditionTask;
extern const TaskKind kParityTask;
extern const TaskKind kAssociativeRecallTask;

/// Names of an alphabet: a-z, A-Z, 0-9 where they suffice, else a letter with a number ("s0", "s1", ...).
std::vector<std::string> alphabet_names(int64_t alphabet, char letter);

/// Ends a row whose prompt is tokens[0 .. prompt) and whose answer is targets[prompt - 1 .. prompt - 1 + answer): the
/// answer tokens before the last follow the prompt as input.
void feed_answer(int64_t prompt, int64_t answer, std::span<int32_t> tokens, std::span<const int32_t> targets);

}  // namespace ropewalk
