#include "experiments/packed_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ropewalk {
namespace {

constexpr double kCodesPerOctave = 235;
constexpr double kOctavesBelowOne = 150;
constexpr uint16_t kFirstCode = 2;

template <typename Unsigned>
void append_little_endian(Unsigned value, std::string& bytes) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFFU);
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

std::string packed_floats(std::span<const float> values) {
  std::string bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) append_little_endian(std::bit_cast<uint32_t>(value), bytes);
  return base64(bytes);
}

uint16_t log16(double value) {
  if (!std::isfinite(value)) return kLog16NotFinite;
  if (value <= 0) return kLog16Zero;
  const double code = std::round(kFirstCode + kCodesPerOctave * (std::log2(value) + kOctavesBelowOne));
  return static_cast<uint16_t>(std::clamp(code, double{kFirstCode}, double{kLog16NotFinite} - 1));
}

double from_log16(uint16_t code) {
  return std::exp2((code - kFirstCode) / kCodesPerOctave - kOctavesBelowOne);
}

std::string packed_codes(std::span<const uint16_t> codes) {
  std::string bytes;
  bytes.reserve(codes.size() * sizeof(uint16_t));
  for (const uint16_t code : codes) append_little_endian(code, bytes);
  return base64(bytes);
}

}  // namespace ropewalk
