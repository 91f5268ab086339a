#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/bench/machine_peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "train/bench/machine_peak.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Latency times units of a processor is 8 to 16 multiply-adds under way. With 16 registers 12 chains and their operands
// fit; more than 16 chains the compiler does not unroll.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kChains = 16;
#else
constexpr int kChains = 12;
#endif

/// Runs chains of multiply-adds; returns how many floating-point operations they were.
template <class T>
HWY_NOINLINE double multiply_add(int64_t rounds, T factor, T term, T& sum) {
  const hn::ScalableTag<T> d;
  using V = hn::VFromD<decltype(d)>;
  const V a = hn::Set(d, factor);
  const V b = hn::Set(d, term);
  V chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = hn::Set(d, static_cast<T>(i));
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kChains; ++i) chains[i] = hn::MulAdd(chains[i], a, b);
  }
  V total = chains[0];
  for (int i = 1; i < kChains; ++i) total = hn::Add(total, chains[i]);
  sum = hn::GetLane(hn::SumOfLanes(d, total));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

double multiply_add_f32(int64_t rounds, float factor, float term, float& sum) {
  return multiply_add(rounds, factor, term, sum);
}
double multiply_add_f64(int64_t rounds, double factor, double term, double& sum) {
  return multiply_add(rounds, factor, term, sum);
}

/// Sum of x [n], read `passes` times; n is a multiple of eight vectors.
HWY_NOINLINE float read_all(const float* x, int64_t n, int64_t passes) {
  const hn::ScalableTag<float> d;
  using V = hn::VFromD<decltype(d)>;
  constexpr int kSums = 8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kSums];
  for (int k = 0; k < kSums; ++k) sums[k] = hn::Zero(d);
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < n; i += kSums * lanes) {
      for (int k = 0; k < kSums; ++k) sums[k] = hn::Add(sums[k], hn::Load(d, x + i + k * lanes));
    }
  }
  V total = sums[0];
  for (int k = 1; k < kSums; ++k) total = hn::Add(total, sums[k]);
  return hn::GetLane(hn::SumOfLanes(d, total));
}

}  // namespace
}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <hwy/aligned_allocator.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <vector>

namespace ropewalk {
namespace {

HWY_EXPORT(multiply_add_f32);
HWY_EXPORT(multiply_add_f64);
HWY_EXPORT(read_all);

double multiply_add(int64_t rounds, float factor, float term, float& sum) {
  return HWY_DYNAMIC_DISPATCH(multiply_add_f32)(rounds, factor, term, sum);
}
double multiply_add(int64_t rounds, double factor, double term, double& sum) {
  return HWY_DYNAMIC_DISPATCH(multiply_add_f64)(rounds, factor, term, sum);
}

/// Greatest rate of `run`, which returns the work it did, over runs of about a millisecond.
template <class F>
double best_rate(double seconds, F run) {
  using Time = std::chrono::steady_clock;
  double best = 0;
  double passed = 0;
  int64_t times = 1;
  while (passed < seconds || best == 0) {
    const Time::time_point start = Time::now();
    const double work = run(times);
    const double took = std::chrono::duration<double>(Time::now() - start).count();
    passed += took;
    if (took > 0.5e-3 || passed >= seconds) best = std::max(best, took > 0 ? work / took : 0);
    if (took < 1e-3) times *= 2;
  }
  return best;
}

int64_t capacity_or(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

double measure_fma_peak(DType dtype, double seconds) {
  return dispatch(dtype, [&]<class T>() {
    // The chains tend to 0.5, far from zeros, denormal numbers and infinities.
    volatile T factor = T(0.5);
    volatile T term = T(0.25);
    volatile T kept;
    return best_rate(seconds, [&](int64_t times) {
      T sum = 0;
      const double work = multiply_add(times * 1000, factor, term, sum);
      kept = sum;
      return work;
    });
  });
}

double measure_fma_peak(DType dtype, double seconds, Workers& workers) {
  std::vector<double> rates(static_cast<std::size_t>(workers.count()));
  const auto task = [&](int64_t, int64_t i) { rates[static_cast<std::size_t>(i)] = measure_fma_peak(dtype, seconds); };
  workers.run(workers.count(), task);
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

const MemoryLevel& MemoryRoof::level_of(double working_set) const {
  for (const MemoryLevel& level : levels) {
    if (working_set <= static_cast<double>(level.capacity)) return level;
  }
  return levels.back();
}

MemoryRoof measure_memory_roof(double seconds) {
  constexpr int64_t kKiB = 1024;
  constexpr int64_t kMiB = 1024 * kKiB;
  MemoryRoof roof{{{{"L1", capacity_or(_SC_LEVEL1_DCACHE_SIZE, 32 * kKiB), 16 * kKiB},
                    {"L2", capacity_or(_SC_LEVEL2_CACHE_SIZE, 512 * kKiB), 256 * kKiB},
                    {"L3", capacity_or(_SC_LEVEL3_CACHE_SIZE, 16 * kMiB), 8 * kMiB},
                    {"DRAM", std::numeric_limits<int64_t>::max(), 128 * kMiB}}}};
  const auto most = static_cast<std::size_t>(roof.levels.back().measured) / sizeof(float);
  const hwy::AlignedFreeUniquePtr<float[]> memory = hwy::AllocateAligned<float>(most);
  if (memory == nullptr) throw std::bad_alloc();
  std::fill(memory.get(), memory.get() + most, 1.0F);  // pages that were never written are all the same one
  volatile float kept;
  for (MemoryLevel& level : roof.levels) {
    const int64_t n = level.measured / static_cast<int64_t>(sizeof(float));
    level.bytes_per_s = best_rate(seconds, [&](int64_t times) {
      kept = HWY_DYNAMIC_DISPATCH(read_all)(memory.get(), n, times);
      return static_cast<double>(level.measured) * static_cast<double>(times);
    });
  }
  return roof;
}

}  // namespace ropewalk
#endif  // HWY_ONCE
