#pragma once

#include <Random123/philox.h>

#include <array>
#include <cstdint>

namespace ropewalk {

/// What random words of the data are drawn for. Streams never share a word, so training and evaluation are disjoint.
enum class DataStream : uint64_t {
  train_window,
  train_problem,
  train_choice,
  evaluation_problem,
  train_mask,
  evaluation_mask
};

/// In place of the seed of a run where something is drawn for evaluations, which are the same for every run.
inline constexpr uint64_t kEvaluationSeed = 0;

/// A sequence of random words that is a pure function of (seed, stream, step, index): Philox4x64-10 (Salmon et al.,
/// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) with the counter {word / 4, index, step, stream}. There is
/// no state to save: whoever asks again for the same coordinates gets the same words.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, DataStream stream, int64_t step, int64_t index)
      : key_{{seed, kDomain}},
        counter_{{0, static_cast<uint64_t>(index), static_cast<uint64_t>(step), static_cast<uint64_t>(stream)}} {}

  /// The next 64 random bits.
  uint64_t next() {
    if (used_ == words_.size()) {
      const r123::Philox4x64::ctr_type block = r123::Philox4x64()(counter_, key_);
      words_ = {block.v[0], block.v[1], block.v[2], block.v[3]};
      ++counter_.v[0];
      used_ = 0;
    }
    return words_[used_++];
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [0, bound), without the bias of a bare remainder. Precondition: bound > 0.
  int64_t below(int64_t bound) {
    const auto n = static_cast<uint64_t>(bound);
    const uint64_t rejected = (0 - n) % n;  // 2^64 mod n: the words below it would favour small remainders
    uint64_t word = next();
    while (word < rejected) word = next();
    return static_cast<int64_t>(word % n);
  }

 private:
  static constexpr uint64_t kDomain = 0x64617461;  // "data": other users of the same seed take other keys

  r123::Philox4x64::key_type key_;
  r123::Philox4x64::ctr_type counter_;
  std::array<uint64_t, 4> words_ = {};
  std::size_t used_ = 4;
};

}  // namespace ropewalk
