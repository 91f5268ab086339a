// copy, reverse and sort: <begin> x1 .. xn > y1 .. yn <end>, where y is x, x backwards or x in ascending order.

#include <algorithm>

#include "data/tasks/kinds.h"

namespace ropewalk {
namespace {

std::vector<std::string> symbols(const Task& task) {
  return alphabet_names(task.alphabet, 's');
}

int64_t tokens_needed(const Task&, int64_t length) {
  return 2 * length + 2;
}

PairSizes pair_sizes(const Task&, int64_t length) {
  return {.source = length, .target = length + 1};
}

using Arrange = void (*)(std::span<int32_t> list);

/// The common form; `arrange` turns x into y in place.
template <Arrange arrange>
void generate(const Task& task, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
              std::span<int32_t> targets) {
  const std::span<int32_t> payload = tokens.subspan(1, length);
  const std::span<int32_t> answer = targets.subspan(length + 1, length);
  tokens[0] = kBegin;
  for (int32_t& token : payload) token = static_cast<int32_t>(kFirstSymbol + random.below(task.alphabet));
  tokens[length + 1] = kSeparator;
  std::ranges::copy(payload, answer.begin());
  arrange(answer);
  targets[2 * length + 1] = kEnd;
  feed_answer(length + 2, length + 1, tokens, targets);
}

void keep(std::span<int32_t> /*list*/) {}
void reverse(std::span<int32_t> list) {
  std::ranges::reverse(list);
}
void sort(std::span<int32_t> list) {
  std::ranges::sort(list);
}

constexpr TaskKind list_task(std::string_view name, std::string_view summary, auto generate_problem) {
  return {.name = name,
          .summary = summary,
          .length_unit = "symbols",
          .separator = ">",
          .default_alphabet = 32,
          .distinct_symbols = false,
          .symbols = symbols,
          .tokens = tokens_needed,
          .pair = pair_sizes,
          .generate = generate_problem};
}

}  // namespace

const TaskKind kCopyTask = list_task("copy", "repeat a list of random symbols", generate<keep>);
const TaskKind kReverseTask = list_task("reverse", "repeat a list of random symbols backwards", generate<reverse>);
const TaskKind kSortTask = list_task("sort", "put a list of random symbols in order", generate<sort>);

}  // namespace ropewalk
