#pragma once

#include <cstdint>
#include <vector>

namespace ropewalk {

/// Slopes m_h of ALiBi (Press et al. 2022): 2^(-8/h), 2^(-16/h), ... for a power of two; for other head counts the
/// slopes of the next lower power p, then every other slope of 2 p.
std::vector<double> alibi_slopes(int64_t n_heads);

}  // namespace ropewalk
