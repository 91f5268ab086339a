#include "data/tasks/pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/error.h"

namespace ropewalk {
namespace {

/// A problem as one sequence, in memory that is kept, so that a batch allocates nothing.
struct Sequence {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;

  static Sequence& of_length(int64_t length) {
    thread_local Sequence sequence;
    sequence.tokens.resize(static_cast<std::size_t>(length));
    sequence.targets.resize(static_cast<std::size_t>(length));
    return sequence;
  }
};

void check_part(const Task& task, int64_t length, const char* part, int64_t needed, std::size_t room) {
  if (static_cast<int64_t>(room) >= needed) return;
  throw DataError(
      fmt::format("{}: the {} of a problem of length {} takes {} tokens, the row has {}; lower "
                  "data.max_length or make the batch wider",
                  task.kind->name, part, length, needed, room));
}

/// Takes a problem of `length` apart. Returns the length of the source.
int64_t split(const Task& task, int64_t length, const Sequence& problem, const PairRow& row) {
  const PairSizes sizes = pair_tokens(task, length);
  check_part(task, length, "source", sizes.source, row.source.size());
  check_part(task, length, "target", sizes.target, std::min(row.inputs.size(), row.targets.size()));
  std::ranges::fill(row.source, kPad);
  std::ranges::fill(row.inputs, kPad);
  std::ranges::fill(row.targets, kIgnored);
  const int64_t positions = problem_tokens(task, length);
  int64_t source = 0;
  int64_t target = 0;
  for (int64_t i = 0; i < positions; ++i) {
    // An answer token is read one position after it had to be predicted. A separator at the end is beyond the size.
    const bool of_prompt = i > 0 && problem.targets[i - 1] == kIgnored;
    if (of_prompt && source < sizes.source) row.source[source++] = problem.tokens[i];
    if (problem.targets[i] != kIgnored) row.targets[target++] = problem.targets[i];
  }
  if (target < sizes.target) row.targets[target++] = kEnd;
  row.inputs[0] = kBegin;
  std::copy_n(row.targets.begin(), target - 1, row.inputs.begin() + 1);
  return source;
}

}  // namespace

PairSizes pair_tokens(const Task& task, int64_t length) {
  problem_tokens(task, length);
  return task.kind->pair(task, length);
}

int64_t fill_training_pair(const Task& task, uint64_t seed, int64_t step, int64_t index, const PairRow& row) {
  Sequence& problem = Sequence::of_length(problem_tokens(task, task.max_length));
  const int64_t length = fill_training_problem(task, seed, step, index, problem.tokens, problem.targets);
  return split(task, length, problem, row);
}

int64_t fill_evaluation_pair(const Task& task, uint64_t seed, int64_t length, int64_t index, const PairRow& row) {
  Sequence& problem = Sequence::of_length(problem_tokens(task, length));
  fill_evaluation_problem(task, seed, length, index, problem.tokens, problem.targets);
  return split(task, length, problem, row);
}

}  // namespace ropewalk
