#include "experiments/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace ropewalk {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

template <typename T>
void append_bytes(std::string& out, T value) {
  std::array<char, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  out.append(bytes.data(), bytes.size());
}

// Wire types of Protocol Buffers.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5;

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, uint32_t wire_type) {
  append_varint(out, (field << 3) | wire_type);
}

void append_text(std::string& out, uint32_t field, std::string_view text) {
  append_key(out, field, kDelimited);
  append_varint(out, text.size());
  out += text;
}

std::string begin_event(double wall_time) {
  std::string out;
  append_key(out, 1, kFixed64);
  append_bytes(out, wall_time);
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFU];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string record_of(std::string_view data) {
  std::string out;
  append_bytes(out, static_cast<uint64_t>(data.size()));
  append_bytes(out, masked_crc32c(out));
  out += data;
  append_bytes(out, masked_crc32c(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = begin_event(wall_time);
  append_text(out, 3, "brain.Event:2");
  return out;
}

std::string scalar_event(double wall_time, int64_t step, std::span<const TaggedScalar> scalars) {
  std::string summary;
  for (const TaggedScalar& scalar : scalars) {
    std::string value;
    append_text(value, 1, scalar.tag);
    append_key(value, 2, kFixed32);
    append_bytes(value, scalar.value);
    append_text(summary, 1, value);
  }
  std::string out = begin_event(wall_time);
  append_key(out, 2, kVarint);
  append_varint(out, static_cast<uint64_t>(step));
  append_text(out, 5, summary);
  return out;
}

}  // namespace ropewalk
