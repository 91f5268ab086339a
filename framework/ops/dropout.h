#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

/// Inverted dropout (Srivastava et al. 2014) of x [B, ..]: each element becomes x / (1 - rate) with probability
/// 1 - rate, else 0; `rate` lies in [0, 1). With rate 0, and on an inference tape, the result is x itself.
///
/// Whether an element survives is a function of (seed, step, first_sequence + b, site, index within the sequence b)
/// and of nothing else, so neither the cut into micro-batches nor the number of threads changes a run. `site` tells
/// the places of the model apart, below 2^24.
///
/// Backward: dx += dy times the same factors, which are computed again and take no memory.
Var dropout(Var x, double rate, uint64_t seed, uint32_t step, uint32_t first_sequence, uint32_t site);

}  // namespace ropewalk
