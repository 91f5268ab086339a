#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "data/tasks/task.h"
#include "data/tokenizer.h"

namespace ropewalk {

/// A problem as its names: the inputs, and the targets with "." where none counts.
struct Problem {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::vector<std::string> input;
  std::vector<std::string> target;
};

inline Task task_named(std::string_view name, int64_t alphabet = 0) {
  DataConfig config;
  config.source = "task";
  config.task = name;
  config.alphabet = alphabet;
  return make_task(config);
}

/// The evaluation problem in a row that it fills, or with `padding` positions more.
inline Problem problem(const Task& task, int64_t length, int64_t index, int64_t padding = 0) {
  const auto size = static_cast<std::size_t>(problem_tokens(task, length) + padding);
  Problem p{std::vector<int32_t>(size, -7), std::vector<int32_t>(size, -7), {}, {}};
  fill_evaluation_problem(task, 1, length, index, p.tokens, p.targets);
  const std::vector<std::string> names = task_symbols(task);
  for (const int32_t token : p.tokens) p.input.push_back(names.at(token));
  for (const int32_t target : p.targets) p.target.push_back(target == kIgnored ? "." : names.at(target));
  return p;
}

}  // namespace ropewalk
