#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor.h"

namespace ropewalk {

/// Rates of xPos (Sun et al. 2022), one a pair of `dims` columns: ln(zeta_m) / scale_base with zeta_m = (2m/dims +
/// gamma) / (1 + gamma) < 1. Pair m of a query at position i is scaled by exp(rate_m i), of a key at j by exp(-rate_m
/// j), so that what they add to a score falls by zeta_m^((i - j) / scale_base).
std::vector<double> xpos_rates(int64_t dims, double gamma, double scale_base);

/// The longest sequence whose scale factors, counted from its middle, leave room for the values that they multiply and
/// for products of these, masked ones too: a quarter of the exponents of `dtype`.
int64_t xpos_greatest_length(const std::vector<double>& rates, DType dtype);

}  // namespace ropewalk
