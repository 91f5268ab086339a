#include "train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/error.h"
#include "framework/random.h"

namespace ropewalk {

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) {
  require(std::isfinite(sampling.temperature) && sampling.temperature >= 0, "temperature = {}: must be at least 0",
          sampling.temperature);
  require(sampling.top_k >= 0, "top_k = {}: must be at least 1, or 0 for all tokens", sampling.top_k);
  require(sampling.top_p >= 0 && sampling.top_p <= 1, "top_p = {}: must be between 0 and 1", sampling.top_p);
}

int32_t Sampler::choose(const Tensor& logits, int64_t row, int64_t sequence, int64_t position) {
  const int64_t vocabulary = logits.shape[-1];
  logits_.resize(static_cast<std::size_t>(vocabulary));
  for (int64_t i = 0; i < vocabulary; ++i) {
    const double logit = logits.at(row * vocabulary + i);
    require(std::isfinite(logit),
            "the logit of token {} is {} after {} tokens; the parameters or the sizes of the activations are beyond "
            "what numbers hold: has the run diverged?",
            i, logit, position);
    logits_[static_cast<std::size_t>(i)] = logit;
  }
  const auto greatest = std::max_element(logits_.begin(), logits_.end());
  if (sampling_.temperature == 0) return static_cast<int32_t>(greatest - logits_.begin());
  weights_.resize(logits_.size());
  for (std::size_t i = 0; i < logits_.size(); ++i) {
    weights_[i] = std::exp((logits_[i] - *greatest) / sampling_.temperature);
  }
  if ((sampling_.top_k > 0 && sampling_.top_k < vocabulary) || sampling_.top_p < 1) keep_likely();
  // In the order of the ids, so that rules which leave everything change nothing.
  double left = random_uniform({.seed = sampling_.seed,
                                .stream = Stream::sampling,
                                .a = static_cast<uint32_t>(position),
                                .b = static_cast<uint32_t>(sequence)},
                               0) *
                std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights_.size() && left >= 0; ++i) {
    if (weights_[i] == 0) continue;
    chosen = i;
    left -= weights_[i];
  }
  return static_cast<int32_t>(chosen);
}

void Sampler::keep_likely() {
  order_.resize(weights_.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const double x = logits_[static_cast<std::size_t>(a)];
    const double y = logits_[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  auto stay = order_.end();
  if (sampling_.top_k > 0 && sampling_.top_k < static_cast<int64_t>(order_.size())) {
    stay = order_.begin() + sampling_.top_k;
    std::nth_element(order_.begin(), stay, order_.end(), likelier);
  }
  if (sampling_.top_p < 1) {
    std::sort(order_.begin(), stay, likelier);
    double total = 0;
    for (auto i = order_.begin(); i != stay; ++i) total += weights_[static_cast<std::size_t>(*i)];
    double reached = 0;
    auto end = order_.begin();
    do {
      reached += weights_[static_cast<std::size_t>(*end++)];
    } while (end != stay && reached < sampling_.top_p * total);
    stay = end;
  }
  for (auto i = stay; i != order_.end(); ++i) weights_[static_cast<std::size_t>(*i)] = 0;
}

}  // namespace ropewalk
