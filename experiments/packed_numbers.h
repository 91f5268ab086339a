#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ropewalk {

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

/// Base64 of the values as little-endian 32-bit floats.
std::string packed_floats(std::span<const float> values);

/// Codes of log16: what has none, what is zero or less, what is not finite.
inline constexpr uint16_t kLog16None = 0, kLog16Zero = 1, kLog16NotFinite = 65535;

/// A positive number in 16 bits, to 0.15 %, over the whole range of a float: 2 + 235 (log2(value) + 150), rounded.
uint16_t log16(double value);

/// What a code of a positive number stands for.
double from_log16(uint16_t code);

/// Base64 of the codes, little-endian.
std::string packed_codes(std::span<const uint16_t> codes);

}  // namespace ropewalk
