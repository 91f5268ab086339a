// addition: <begin> a1 .. an + b1 .. bn = c0 .. cn <end>. Both operands have exactly n digits (no leading zero beyond
// one digit), the sum n + 1 with a zero in front where there is no carry, so that n alone fixes every position.

#include "data/tasks/kinds.h"

namespace ropewalk {
namespace {

constexpr int32_t kZero = kFirstSymbol;
constexpr int32_t kPlus = kFirstSymbol + 10;

std::vector<std::string> symbols(const Task& /*task*/) {
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+"};
}

int64_t tokens_needed(const Task&, int64_t length) {
  return 3 * length + 4;
}

PairSizes pair_sizes(const Task&, int64_t length) {
  return {.source = 2 * length + 1, .target = length + 2};
}

/// Where the digit worth 10^place stands in a number of `digits` digits.
int64_t position_of(const Task& task, int64_t place, int64_t digits) {
  return task.least_significant_first ? place : digits - 1 - place;
}

void draw_operand(const Task& task, CounterRandom& random, std::span<int32_t> digits) {
  const auto n = static_cast<int64_t>(digits.size());
  for (int64_t place = 0; place < n; ++place) {
    const bool leading = place == n - 1 && n > 1;
    const int64_t digit = leading ? 1 + random.below(9) : random.below(10);
    digits[position_of(task, place, n)] = static_cast<int32_t>(kZero + digit);
  }
}

void generate(const Task& task, int64_t length, CounterRandom& random, std::span<int32_t> tokens,
              std::span<int32_t> targets) {
  const std::span<int32_t> a = tokens.subspan(1, length);
  const std::span<int32_t> b = tokens.subspan(length + 2, length);
  const std::span<int32_t> sum = targets.subspan(2 * length + 2, length + 1);
  tokens[0] = kBegin;
  draw_operand(task, random, a);
  tokens[length + 1] = kPlus;
  draw_operand(task, random, b);
  tokens[2 * length + 2] = kSeparator;

  int32_t carry = 0;
  for (int64_t place = 0; place < length; ++place) {
    const int64_t at = position_of(task, place, length);
    const int32_t total = (a[at] - kZero) + (b[at] - kZero) + carry;
    sum[position_of(task, place, length + 1)] = kZero + total % 10;
    carry = total / 10;
  }
  sum[position_of(task, length, length + 1)] = kZero + carry;
  targets[3 * length + 3] = kEnd;
  feed_answer(2 * length + 3, length + 2, tokens, targets);
}

}  // namespace

const TaskKind kAdditionTask = {.name = "addition",
                                .summary = "add two numbers of equally many digits",
                                .length_unit = "digits an operand",
                                .separator = "=",
                                .default_alphabet = 0,
                                .distinct_symbols = false,
                                .symbols = symbols,
                                .tokens = tokens_needed,
                                .pair = pair_sizes,
                                .generate = generate};

}  // namespace ropewalk
