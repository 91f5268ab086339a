#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/ops/dropout.cpp"
#include <hwy/foreach_target.h>

#include "framework/simd-inl.h"

#include <algorithm>

#include "framework/for_type.h"
#include "framework/ops/checks.h"
#include "framework/ops/dropout.h"
#include "framework/random.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

// 16 blocks of four words decide over 64 elements: element 16 w + b of a tile takes word w of its block b, so that the
// words of neighbouring blocks, which lie in neighbouring lanes, are stored side by side.
constexpr int64_t kBlocks = 16;
constexpr int64_t kTile = 4 * kBlocks;

// Philox4x32-10 of 16 blocks side by side, as loops that the compiler turns into vectors of widening products; the same
// words as random_block gives.
HWY_INLINE void random_tile(const RandomKey& key, uint64_t first_block, uint32_t* words) {
  uint32_t* HWY_RESTRICT c0 = words;
  uint32_t* HWY_RESTRICT c1 = words + kBlocks;
  uint32_t* HWY_RESTRICT c2 = words + 2 * kBlocks;
  uint32_t* HWY_RESTRICT c3 = words + 3 * kBlocks;
  const uint32_t high = static_cast<uint32_t>(first_block >> 32) ^ (static_cast<uint32_t>(key.stream) << 24);
  for (int64_t b = 0; b < kBlocks; ++b) {
    c0[b] = static_cast<uint32_t>(first_block) + static_cast<uint32_t>(b);
    c1[b] = high;
    c2[b] = key.a;
    c3[b] = key.b;
  }
  auto k0 = static_cast<uint32_t>(key.seed);
  auto k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      const uint64_t product0 = uint64_t{0xD2511F53U} * c0[b];
      const uint64_t product1 = uint64_t{0xCD9E8D57U} * c2[b];
      c0[b] = static_cast<uint32_t>(product1 >> 32) ^ c1[b] ^ k0;
      c1[b] = static_cast<uint32_t>(product1);
      c2[b] = static_cast<uint32_t>(product0 >> 32) ^ c3[b] ^ k1;
      c3[b] = static_cast<uint32_t>(product0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

// One sequence of n elements: y = x * factor where the word reaches the threshold, else 0.
template <class T>
void keep_some(const RandomKey& key, uint64_t site, uint32_t threshold, T factor, const T* x, int64_t n,
               GradientSink<T> y) {
  HWY_ALIGN uint32_t words[kTile];
  HWY_ALIGN T factors[kTile];
  for (int64_t begin = 0; begin < n; begin += kTile) {
    random_tile(key, (site << 32) + static_cast<uint64_t>(begin / 4), words);
    for (int64_t i = 0; i < kTile; ++i) factors[i] = words[i] >= threshold ? factor : T(0);
    const T* from = x + begin;
    T* to = y.data + begin;
    vectorise<T>(std::min(kTile, n - begin), [&](auto d, int64_t i) HWY_ATTR {
      store_or_add(d, y.accumulate, hn::Mul(hn::LoadU(d, from + i), hn::LoadU(d, factors + i)), to + i);
    });
  }
}

constexpr auto& KeepSomeF32 = keep_some<float>;
constexpr auto& KeepSomeF64 = keep_some<double>;

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(KeepSomeF32);
HWY_EXPORT(KeepSomeF64);

/// What dropout does to a value and, the same again, to its gradient.
struct Mask {
  double rate;
  uint64_t seed;
  uint32_t step;
  uint32_t first_sequence;
  uint32_t site;

  template <class T>
  void apply(const T* x, int64_t sequences, int64_t n, GradientSink<T> y) const {
    auto& keep_some = for_type<T>(HWY_DYNAMIC_DISPATCH(KeepSomeF32), HWY_DYNAMIC_DISPATCH(KeepSomeF64));
    const auto threshold = static_cast<uint32_t>(std::min(rate * 0x1.0p32, 0x1.0p32 - 1));
    for (int64_t b = 0; b < sequences; ++b) {
      const RandomKey key{
          .seed = seed, .stream = Stream::dropout, .a = step, .b = first_sequence + static_cast<uint32_t>(b)};
      keep_some(key, site, threshold, static_cast<T>(1.0 / (1.0 - rate)), x + b * n, n,
                GradientSink<T>{y.data + b * n, y.accumulate});
    }
  }
};

}  // namespace

Var dropout(Var x, double rate, uint64_t seed, uint32_t step, uint32_t first_sequence, uint32_t site) {
  require(rate >= 0 && rate < 1, "dropout: a rate of {}; it must lie in [0, 1)", rate);
  require(site < (uint32_t{1} << 24), "dropout: site {}; sites are numbered below 2^24", site);
  Tape& tape = *x.tape;
  if (rate == 0 || tape.mode() == Mode::inference) return x;
  require(x.shape().rank() >= 1, "dropout: x needs a first axis of sequences");
  const int64_t sequences = x.shape()[0];
  const int64_t n = sequences == 0 ? 0 : x.value().elements() / sequences;
  require(n <= int64_t{1} << 34, "dropout: {} elements a sequence; at most 2^34 have random words of their own", n);
  const Mask mask{rate, seed, step, first_sequence, site};
  const Tensor y = tape.allocate(x.shape(), x.dtype());
  return dispatch(x.dtype(), [&]<class T>() {
    mask.apply(x.value().data<T>(), sequences, n, GradientSink<T>{y.data<T>(), false});
    return tape.record("dropout", y, {x}, [=](Tape& t, Var result) {
      if (const GradientSink<T> dx = t.gradient_sink<T>(x)) mask.apply(t.gradient<T>(result), sequences, n, dx);
    });
  });
}

}  // namespace ropewalk
#endif  // HWY_ONCE
