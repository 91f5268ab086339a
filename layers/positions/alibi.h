#pragma once

#include <cstdint>
#include <vector>

namespace ropewalk {

/// How the slopes of head counts that are no power of two are chosen; for powers of two the two agree.
enum class AlibiSlopes : uint8_t {
  closest_power,  ///< those of the next lower power p, then every other one of 2 p (the code of Press et al., BLOOM,
                  ///< MPT)
  geometric,      ///< 2^(-8 h / n_heads) for any number (the formula of the paper)
};

/// Slopes m_h of ALiBi (Press et al. 2022), h = 1 ... n_heads: 2^(-8/n), 2^(-16/n), ..., 2^-8 for a power of two.
std::vector<double> alibi_slopes(int64_t n_heads, AlibiSlopes convention = AlibiSlopes::closest_power);

}  // namespace ropewalk
