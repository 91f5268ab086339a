// associative_recall: <begin> k1 v1 .. kn vn > q1 w1 .. qn wn, the multi-query form (MQAR) of Arora et al., "Zoology",
// 2023 (arXiv 2312.04927): n different keys with random values, then every key once more in random order. Only the
// values after the queries count. The last of them ends the problem; an <end> would say nothing about recall. With
// data.gap = g the separator stands g times more, so that every value is at least g + 2 positions before it is asked
// for.

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "data/tasks/kinds.h"

namespace ropewalk {
namespace {

std::vector<std::string> symbols(const Task& task) {
  std::vector<std::string> names;
  for (const char letter : {'k', 'v'}) {
    for (int64_t i = 0; i < task.alphabet; ++i) names.push_back(letter + std::to_string(i));
  }
  return names;
}

int64_t tokens_needed(const Task& task, int64_t length) {
  return 4 * length + 1 + task.gap;
}

PairSizes pair_sizes(const Task& task, int64_t length) {
  return {.source = 3 * length + 1 + task.gap, .target = length + 1};
}

/// The first `count` of a random permutation of 0 .. size - 1 (Fisher and Yates), in the front of `items`.
void draw_permutation(CounterRandom& random, int64_t size, int64_t count, std::span<int32_t> items) {
  std::iota(items.begin(), items.begin() + size, 0);
  for (int64_t i = 0; i < count; ++i) std::swap(items[i], items[i + random.below(size - i)]);
}

void generate(const Task& task, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
              std::span<int32_t> targets) {
  const auto first_key = static_cast<int32_t>(kFirstSymbol);
  const auto first_value = static_cast<int32_t>(kFirstSymbol + task.alphabet);
  std::array<int32_t, kGreatestAlphabet> order;  // on the stack: a batch allocates nothing
  tokens[0] = kBegin;
  draw_permutation(random, task.alphabet, length, order);
  for (int64_t pair = 0; pair < length; ++pair) {
    tokens[2 * pair + 1] = first_key + order[pair];
    tokens[2 * pair + 2] = first_value + static_cast<int32_t>(random.below(task.alphabet));
  }
  const int64_t queries = 2 * length + 2 + task.gap;
  std::fill(tokens.begin() + 2 * length + 1, tokens.begin() + queries, kSeparator);

  draw_permutation(random, length, length, order);
  for (int64_t query = 0; query < length; ++query) {
    const int64_t pair = order[query];
    const int64_t at = queries + 2 * query;
    const int32_t value = tokens[2 * pair + 2];
    tokens[at] = tokens[2 * pair + 1];
    targets[at] = value;
    if (query + 1 < length) tokens[at + 1] = value;
  }
}

}  // namespace

const TaskKind kAssociativeRecallTask = {.name = "associative_recall",
                                         .summary = "tell the value that stood after each key (MQAR)",
                                         .length_unit = "key-value pairs",
                                         .separator = ">",
                                         .default_alphabet = 256,
                                         .distinct_symbols = true,
                                         .symbols = symbols,
                                         .tokens = tokens_needed,
                                         .pair = pair_sizes,
                                         .generate = generate};

}  // namespace ropewalk
