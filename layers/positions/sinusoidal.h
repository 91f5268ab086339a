#pragma once

#include <cstdint>
#include <span>

#include "framework/tensor.h"

namespace ropewalk {

/// Where sines and cosines stand, and with it how the frequencies are spaced; two functions, not one permuted.
enum class SinusoidalLayout : uint8_t {
  interleaved,   ///< sine in column 2i, cosine in 2i + 1, of p / base^(2i/d) (Vaswani et al. 2017)
  concatenated,  ///< sine in column i, cosine in d/2 + i, of p / base^(i/(d/2 - 1)) (tensor2tensor, fairseq)
};

/// Table [length, d_model] of positions p = 0, 1, ... d_model is even; with two columns the only frequency is 1.
Tensor sinusoidal_table(int64_t length, int64_t d_model, double base, DType dtype,
                        SinusoidalLayout layout = SinusoidalLayout::interleaved);
/// The same of these positions, which may be negative.
Tensor sinusoidal_table(std::span<const int64_t> positions, int64_t d_model, double base, DType dtype,
                        SinusoidalLayout layout = SinusoidalLayout::interleaved);

}  // namespace ropewalk
