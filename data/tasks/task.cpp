#include "data/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/batch.h"
#include "data/error.h"
#include "data/tasks/kinds.h"

namespace ropewalk {
namespace {

void check_alphabet(const Task& task, int64_t wanted) {
  const TaskKind& kind = *task.kind;
  if (kind.default_alphabet == 0) {
    if (wanted == 0) return;
    throw DataError(fmt::format("data.alphabet = {}: {} has symbols of its own; leave the key out", wanted, kind.name));
  }
  if (task.alphabet < 2 || task.alphabet > kGreatestAlphabet) {
    throw DataError(fmt::format("data.alphabet = {}: must be between 2 and {}", task.alphabet, kGreatestAlphabet));
  }
}

void generate(const Task& task, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
              std::span<int32_t> targets) {
  const int64_t needed = problem_tokens(task, length);
  const auto row = static_cast<int64_t>(tokens.size());
  if (row < needed || tokens.size() != targets.size()) {
    throw DataError(
        fmt::format("{}: a problem of length {} takes {} tokens, the sequence has {}; raise train.context_length or "
                    "lower data.max_length",
                    task.kind->name, length, needed, row));
  }
  std::ranges::fill(tokens, kPad);
  std::ranges::fill(targets, kIgnored);
  task.kind->generate(task, length, random, tokens.first(needed), targets.first(needed));
}

}  // namespace

std::span<const TaskKind> task_kinds() {
  static const std::array<TaskKind, 6> kinds = {kCopyTask,     kReverseTask, kSortTask,
                                                kAdditionTask, kParityTask,  kAssociativeRecallTask};
  return kinds;
}

std::vector<std::string> alphabet_names(int64_t alphabet, char letter) {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::vector<std::string> names;
  for (int64_t i = 0; i < alphabet; ++i) {
    const bool single = alphabet <= static_cast<int64_t>(kCharacters.size());
    names.push_back(single ? std::string(1, kCharacters[i]) : fmt::format("{}{}", letter, i));
  }
  return names;
}

void feed_answer(int64_t prompt, int64_t answer, std::span<int32_t> tokens, std::span<const int32_t> targets) {
  std::ranges::copy(targets.subspan(prompt - 1, answer - 1), tokens.begin() + prompt);
}

Task make_task(const DataConfig& config) {
  const auto kind = std::ranges::find(task_kinds(), config.task, &TaskKind::name);
  if (kind == task_kinds().end()) {
    std::vector<std::string_view> names;
    for (const TaskKind& known : task_kinds()) names.push_back(known.name);
    throw DataError(fmt::format("data.task = {}: must be one of {}", config.task, fmt::join(names, ", ")));
  }
  Task task;
  task.kind = &*kind;
  task.alphabet = config.alphabet == 0 ? kind->default_alphabet : config.alphabet;
  check_alphabet(task, config.alphabet);
  if (config.digit_order != "most_significant_first" && config.digit_order != "least_significant_first") {
    throw DataError(fmt::format("data.digit_order = {}: must be most_significant_first or least_significant_first",
                                config.digit_order));
  }
  task.least_significant_first = config.digit_order == "least_significant_first";
  task.min_length = config.min_length;
  task.max_length = config.max_length;
  if (task.min_length < 1 || task.max_length < task.min_length) {
    throw DataError(fmt::format("data.min_length = {}, data.max_length = {}: must be 1 <= min_length <= max_length",
                                task.min_length, task.max_length));
  }
  if (config.gap < 0 || config.gap > kGreatestProblemLength) {
    throw DataError(fmt::format("data.gap = {}: must be between 0 and {}", config.gap, kGreatestProblemLength));
  }
  task.gap = config.gap;
  if (config.train_problems < 0) {
    throw DataError(
        fmt::format("data.train_problems = {}: must be at least 0 (0: every problem fresh)", config.train_problems));
  }
  task.train_problems = config.train_problems;
  problem_tokens(task, task.max_length);
  return task;
}

std::vector<std::string> task_symbols(const Task& task) {
  std::vector<std::string> names = {"<pad>", "<begin>", std::string(task.kind->separator), "<end>"};
  for (std::string& name : task.kind->symbols(task)) names.push_back(std::move(name));
  return names;
}

int64_t problem_tokens(const Task& task, int64_t length) {
  if (length < 1 || length > kGreatestProblemLength) {
    throw DataError(fmt::format("{}: there is no problem of length {}; lengths are between 1 and {}", task.kind->name,
                                length, kGreatestProblemLength));
  }
  if (task.kind->distinct_symbols && length > task.alphabet) {
    throw DataError(
        fmt::format("{}: {} pairs need as many different keys, the alphabet has {}; raise data.alphabet (at most {})",
                    task.kind->name, length, task.alphabet, kGreatestAlphabet));
  }
  return task.kind->tokens(task, length);
}

int64_t fill_training_problem(const Task& task, uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                              std::span<int32_t> targets) {
  if (task.train_problems > 0) {
    index = CounterRandom(seed, DataStream::train_choice, step, index).below(task.train_problems);
    step = 0;
  }
  CounterRandom random(seed, DataStream::train_problem, step, index);
  const int64_t length = task.min_length + random.below(task.max_length - task.min_length + 1);
  generate(task, length, random, tokens, targets);
  return length;
}

void fill_evaluation_problem(const Task& task, uint64_t seed, int64_t length, int64_t index, std::span<int32_t> tokens,
                             std::span<int32_t> targets) {
  CounterRandom random(seed, DataStream::evaluation_problem, length, index);
  generate(task, length, random, tokens, targets);
}

}  // namespace ropewalk
