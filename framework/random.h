#pragma once

#include <cstdint>

#include <Random123/philox.h>

namespace ropewalk {

/// What a random stream belongs to. Streams never overlap, and a stream is the same whatever thread draws from it.
enum class Stream : uint32_t {
  initialization = 1,
  dropout = 2,
  probe_inputs = 3,
  probe_labels = 4,
  sampling = 5,
  positions = 6
};

/// Four 32-bit words, a pure function of (seed, stream, a, b, block): Philox4x32-10 (Salmon et al. 2011).
struct RandomKey {
  uint64_t seed = 0;
  Stream stream = Stream::initialization;
  uint32_t a = 0;  ///< e.g. the step
  uint32_t b = 0;  ///< e.g. the sequence within the step, or the parameter
};

inline r123::Philox4x32::ctr_type random_block(const RandomKey& key, uint64_t block) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32) ^ (static_cast<uint32_t>(key.stream) << 24),
       key.a, key.b}};
  const r123::Philox4x32::key_type k = {{static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)}};
  return r123::Philox4x32()(counter, k);
}

/// Uniform in (0, 1), never an end point.
inline double uniform_from(uint32_t high, uint32_t low) {
  // 52 bits: with one more, the half that is added would round up to 1 at the top.
  const uint64_t bits = (static_cast<uint64_t>(high) << 20) | (low >> 12);
  return (static_cast<double>(bits) + 0.5) * 0x1.0p-52;
}

/// Value `index` of a stream, uniform in (0, 1).
double random_uniform(const RandomKey& key, uint64_t index);
/// Value `index` of a stream, N(0, 1) by Box and Muller.
double random_normal(const RandomKey& key, uint64_t index);

}  // namespace ropewalk
