#include "framework/random.h"

#include <cmath>
#include <numbers>

namespace ropewalk {

double random_uniform(const RandomKey& key, uint64_t index) {
  const auto words = random_block(key, index / 2);
  const std::size_t half = index % 2 == 0 ? 0 : 2;
  return uniform_from(words[half], words[half + 1]);
}

double random_normal(const RandomKey& key, uint64_t index) {
  const auto words = random_block(key, index / 2);
  const double radius = std::sqrt(-2.0 * std::log(uniform_from(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * uniform_from(words[2], words[3]);
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

}  // namespace ropewalk
