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
#include <hwy/cache_control.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <numeric>
#include <vector>

#include "train/every_worker.h"
#include "train/machine.h"

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

/// Bursts that are measured however little time is given: one of them goes by without an interrupt.
constexpr int kLeastBursts = 16;

/// Greatest rate over bursts of the same work, with `before` done untimed before each; they go on for `seconds`.
template <class Before, class F>
double best_rate(double seconds, double work, const Before& before, const F& burst) {
  using Time = std::chrono::steady_clock;
  const Time::time_point end =
      Time::now() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  double best = 0;
  for (int bursts = 0; bursts < kLeastBursts || Time::now() < end; ++bursts) {
    before();
    const Time::time_point start = Time::now();
    burst();
    const double took = std::chrono::duration<double>(Time::now() - start).count();
    if (took > 0) best = std::max(best, work / took);
  }
  return best;
}

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

int64_t capacity_or(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

double measure_fma_peak(DType dtype, double seconds) {
  constexpr int64_t kRounds = 50'000;
  return dispatch(dtype, [&]<class T>() {
    // The chains tend to 0.5, far from zeros, denormal numbers and infinities.
    volatile T factor = T(0.5);
    volatile T term = T(0.25);
    volatile T kept;
    T sum = 0;
    const double work = multiply_add(kRounds, factor, term, sum);
    const auto nothing = [] {};
    return best_rate(seconds, work, nothing, [&] {
      multiply_add(kRounds, factor, term, sum);
      kept = sum;
    });
  });
}

double measure_fma_peak(DType dtype, double seconds, Workers& workers) {
  const int64_t measured = fma_threads(workers.count());
  std::vector<double> rates(static_cast<std::size_t>(measured));
  on_every_worker(workers, [&](int64_t worker) {
    if (worker < measured) rates[static_cast<std::size_t>(worker)] = measure_fma_peak(dtype, seconds);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

int64_t fma_threads(int64_t threads) {
  return std::min(threads, static_cast<int64_t>(allowed_cores().size()));
}

const MemoryLevel& MemoryRoof::level_of(double working_set) const {
  for (const MemoryLevel& level : levels) {
    if (working_set <= static_cast<double>(level.capacity)) return level;
  }
  return levels.back();
}

void MemoryRoof::raise_to_levels_below() {
  for (std::size_t i = levels.size() - 1; i > 0; --i) {
    levels[i - 1].bytes_per_s = std::max(levels[i - 1].bytes_per_s, levels[i].bytes_per_s);
  }
}

void MemoryProbe::Release::operator()(float* memory) const {
  hwy::FreeAlignedBytes(memory, nullptr, nullptr);
}

MemoryProbe::MemoryProbe()
    : best_{{{{"L1", capacity_or(_SC_LEVEL1_DCACHE_SIZE, 32 * kKiB), 16 * kKiB},
              {"L2", capacity_or(_SC_LEVEL2_CACHE_SIZE, 512 * kKiB), 256 * kKiB},
              {"L3", capacity_or(_SC_LEVEL3_CACHE_SIZE, 16 * kMiB), 8 * kMiB},
              {"DRAM", std::numeric_limits<int64_t>::max(), 128 * kMiB}}}} {
  const int64_t most = best_.levels.back().measured / kFloat;
  memory_.reset(hwy::AllocateAligned<float>(static_cast<std::size_t>(most)).release());
  if (memory_ == nullptr) throw std::bad_alloc();
  std::fill_n(memory_.get(), most, 1.0F);  // pages that were never written are all the same one
}

void MemoryProbe::measure(double seconds_a_level) {
  constexpr int64_t kBurst = 2 * kMiB;
  volatile float kept;
  const auto read = [&](int64_t first, int64_t bytes, int64_t times) {
    kept = HWY_DYNAMIC_DISPATCH(read_all)(memory_.get() + first / kFloat, bytes / kFloat, times);
  };
  for (MemoryLevel& level : best_.levels) {
    const bool cache = &level != &best_.levels.back();
    if (cache) {
      const int64_t times = std::max<int64_t>(1, kBurst / level.measured);
      const double work = static_cast<double>(level.measured * times);
      const auto bring_in = [&] { read(0, level.measured, 1); };
      level.bytes_per_s = std::max(level.bytes_per_s,
                                   best_rate(seconds_a_level, work, bring_in, [&] { read(0, level.measured, times); }));
      continue;
    }
    // A last-level cache may keep a part of whatever goes through it again and again, and the best burst would be the
    // one that meets that part.
    const auto throw_out = [&] {
      window_ = (window_ + kBurst) % level.measured;
      const auto* window = reinterpret_cast<const std::byte*>(memory_.get()) + window_;
      for (int64_t line = 0; line < kBurst; line += 64) hwy::FlushCacheline(window + line);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    };
    level.bytes_per_s = std::max(level.bytes_per_s, best_rate(seconds_a_level, static_cast<double>(kBurst), throw_out,
                                                              [&] { read(window_, kBurst, 1); }));
  }
}

MemoryRoof MemoryProbe::roof() const {
  MemoryRoof out = best_;
  out.raise_to_levels_below();
  return out;
}

}  // namespace ropewalk
#endif  // HWY_ONCE
