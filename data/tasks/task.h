#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/config.h"
#include "data/random.h"

namespace ropewalk {

/// The ids that every task has. kBegin stands first: without explicit positions, a causal model can only count from a
/// token that it recognizes (Kazemnejad et al., NeurIPS 2023, theorem 1). kSeparator ends the prompt, kEnd the answer.
enum TaskToken : int32_t { kPad, kBegin, kSeparator, kEnd, kFirstSymbol };

/// Most symbols of a task (and most key-value pairs of associative_recall).
inline constexpr int64_t kGreatestAlphabet = 4096;

/// Greatest problem length, so that lengths of sequences cannot overflow.
inline constexpr int64_t kGreatestProblemLength = int64_t{1} << 28;

struct TaskKind;

/// A generated task: what the problems look like and how long they are in training. See make_task.
struct Task {
  const TaskKind* kind = nullptr;
  int64_t alphabet = 0;
  bool least_significant_first = false;  ///< addition
  int64_t gap = 0;                       ///< associative_recall: separators beyond the one between pairs and queries
  int64_t min_length = 1;
  int64_t max_length = 20;
  int64_t train_problems = 0;
};

/// Positions that a problem takes as a source -> target pair (data/tasks/pairs.h); the target's with its <end>.
struct PairSizes {
  int64_t source = 0;
  int64_t target = 0;
};

/// A row of the table of tasks. A problem of length n is a prompt, then an answer. In a row, tokens[0 .. P) is the
/// prompt and targets[P - 1 .. P - 1 + A) the answer; the model reads each answer token after it had to predict it
/// (associative_recall puts queries between the answers).
struct TaskKind {
  std::string_view name;
  std::string_view summary;      ///< the problem, for display
  std::string_view length_unit;  ///< what n counts
  std::string_view separator;    ///< the name of kSeparator
  int64_t default_alphabet;      ///< 0: the task has symbols of its own
  bool distinct_symbols;         ///< a problem draws n different symbols, so that n is at most the alphabet

  /// Names of the symbols from kFirstSymbol on.
  std::vector<std::string> (*symbols)(const Task& task);

  /// Positions that a problem takes in a row.
  int64_t (*tokens)(const Task& task, int64_t length);

  /// The same as a source and a target.
  PairSizes (*pair)(const Task& task, int64_t length);

  /// Writes a problem into the first tokens(task, length) positions. Before: tokens are kPad, targets kIgnored.
  void (*generate)(const Task& task, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
                   std::span<int32_t> targets);
};

/// All tasks, in the order in which help texts list them.
std::span<const TaskKind> task_kinds();

/// The task of [data]. Throws DataError for an unknown task (listing the known), lengths that make no range, an
/// alphabet out of [2, kGreatestAlphabet], one given to a task that has its own, fewer keys than max_length, a gap that
/// is negative or longer than kGreatestProblemLength.
Task make_task(const DataConfig& config);

/// Names of all tokens, by id.
std::vector<std::string> task_symbols(const Task& task);

/// Positions that a problem of this length takes: what context_length and evaluation rows must at least be. Throws
/// DataError for a length below 1 or longer than the task has problems.
int64_t problem_tokens(const Task& task, int64_t length);

/// The problem that training sees as sequence `index` of `step`, a pure function of (seed, step, index): its length is
/// uniform in [min_length, max_length]; with train_problems > 0 it is one of that many, drawn uniformly with
/// replacement. Returns the length. Fills the rest of the row with kPad and kIgnored. Throws DataError if the row is
/// too short.
int64_t fill_training_problem(const Task& task, uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                              std::span<int32_t> targets);

/// The index-th evaluation problem of a length: the same for every run with the same task, alphabet and seed. Its
/// random words are never those of a training problem; where there are few problems (copying one symbol) equal ones
/// still occur.
void fill_evaluation_problem(const Task& task, uint64_t seed, int64_t length, int64_t index, std::span<int32_t> tokens,
                             std::span<int32_t> targets);

}  // namespace ropewalk
