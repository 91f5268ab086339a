// parity: <begin> b1 .. bn > p, where p is the number of ones modulo two. The answer is always one token, so there is
// no <end> to predict: it would be right every time and raise the accuracy of a guess from 1/2 to 3/4.

#include "data/tasks/kinds.h"

namespace ropewalk {
namespace {

std::vector<std::string> symbols(const Task& /*task*/) {
  return {"0", "1"};
}

int64_t tokens_needed(const Task&, int64_t length) {
  return length + 2;
}

PairSizes pair_sizes(const Task&, int64_t length) {
  return {.source = length, .target = 2};
}

void generate(const Task& /*task*/, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
              std::span<int32_t> targets) {
  int32_t parity = 0;
  tokens[0] = kBegin;
  for (int32_t& token : tokens.subspan(1, length)) {
    const auto bit = static_cast<int32_t>(random.below(2));
    parity ^= bit;
    token = kFirstSymbol + bit;
  }
  tokens[length + 1] = kSeparator;
  targets[length + 1] = kFirstSymbol + parity;
}

}  // namespace

const TaskKind kParityTask = {.name = "parity",
                              .summary = "is the number of ones odd (1) or even (0)?",
                              .length_unit = "bits",
                              .separator = ">",
                              .default_alphabet = 0,
                              .distinct_symbols = false,
                              .symbols = symbols,
                              .tokens = tokens_needed,
                              .pair = pair_sizes,
                              .generate = generate};

}  // namespace ropewalk
