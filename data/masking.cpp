#include "data/masking.h"

#include <algorithm>

#include "data/batch.h"
#include "data/random.h"

namespace ropewalk {
namespace {

/// Makes the position one to be predicted.
void mask(const Masking& masking, CounterRandom& random, int32_t& token, int32_t& target) {
  target = token;
  const int64_t tenth = random.below(10);
  if (tenth < 8) {
    token = masking.mask_token;
  } else if (tenth == 8) {
    token = static_cast<int32_t>(random.below(masking.mask_token));
  }
}

}  // namespace

void mask_training(const Masking& masking, uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets) {
  CounterRandom random(seed, DataStream::train_mask, step, index);
  std::ranges::fill(targets, kIgnored);
  bool any = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (random.uniform() >= masking.probability) continue;
    mask(masking, random, tokens[i], targets[i]);
    any = true;
  }
  if (any || tokens.empty()) return;
  const auto i = static_cast<std::size_t>(random.below(static_cast<int64_t>(tokens.size())));
  mask(masking, random, tokens[i], targets[i]);
}

void mask_held_out(const Masking& masking, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) {
  std::ranges::fill(targets, kIgnored);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CounterRandom random(kEvaluationSeed, DataStream::evaluation_mask, 0, first + static_cast<int64_t>(i));
    if (random.uniform() < masking.probability) mask(masking, random, tokens[i], targets[i]);
  }
}

}  // namespace ropewalk
