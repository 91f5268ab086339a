#pragma once

#include <cstdint>

namespace ropewalk {

/// Bucket of an offset = key - query position (Raffel et al. 2020). Half of the buckets of a direction are exact, the
/// rest grow by a constant factor up to max_distance; beyond it all share the last. Bidirectional buckets spend half of
/// their number on each sign. Needs max_distance greater than the number of exact buckets.
int32_t t5_bucket(int64_t offset, bool bidirectional, int64_t buckets, int64_t max_distance);

}  // namespace ropewalk
