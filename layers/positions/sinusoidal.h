#pragma once

#include "framework/tensor.h"

namespace ropewalk {

/// Table [length, d_model]: sin(p / base^(2i/d)) in column 2i, the cosine of the same angle in column 2i + 1 (Vaswani
/// et al. 2017). d_model is even.
Tensor sinusoidal_table(int64_t length, int64_t d_model, double base, DType dtype);

}  // namespace ropewalk
