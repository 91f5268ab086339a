#include "data/utf8.h"

#include <array>
#include <cstdint>

namespace ropewalk {
namespace {

/// The lead bytes of one length: those with (byte & mask) == lead; `least` is the first code point that needs it.
struct Form {
  uint8_t mask;
  uint8_t lead;
  std::size_t size;
  char32_t least;
};
constexpr std::array<Form, 4> kForms = {
    {{0x80, 0x00, 1, 0x0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}}};

constexpr char32_t kGreatest = 0x10FFFF;
constexpr bool is_surrogate(char32_t c) {
  return c >= 0xD800 && c <= 0xDFFF;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return {};
  const auto lead = static_cast<uint8_t>(text[offset]);
  for (const Form& form : kForms) {
    if ((lead & form.mask) != form.lead) continue;
    if (text.size() - offset < form.size) return {};
    char32_t value = lead & static_cast<uint8_t>(~form.mask);
    for (std::size_t i = 1; i < form.size; ++i) {
      const auto byte = static_cast<uint8_t>(text[offset + i]);
      if ((byte & 0xC0) != 0x80) return {};
      value = value << 6 | (byte & 0x3F);
    }
    if (value < form.least || value > kGreatest || is_surrogate(value)) return {};
    return {value, form.size};
  }
  return {};
}

std::size_t unfinished_utf8(std::string_view text) {
  for (std::size_t taken = 1; taken < 4 && taken <= text.size(); ++taken) {
    const std::string_view end = text.substr(text.size() - taken);
    const auto lead = static_cast<uint8_t>(end.front());
    if ((lead & 0xC0) == 0x80) continue;
    for (const Form& form : kForms) {
      if ((lead & form.mask) != form.lead || taken >= form.size) continue;
      // Whole with the least or the greatest bytes that may follow, or never: only the second byte has bounds of its
      // own.
      for (const char filler : {'\x80', '\xBF'}) {
        const std::string filled = std::string(end) + std::string(form.size - taken, filler);
        if (decode_utf8(filled, 0).size == form.size) return taken;
      }
    }
    return 0;
  }
  return 0;
}

void append_utf8(std::string& text, char32_t code_point) {
  std::size_t form = 0;
  while (form + 1 < kForms.size() && code_point >= kForms[form + 1].least) ++form;
  const std::size_t size = kForms[form].size;
  for (std::size_t i = 0; i < size; ++i) {
    const auto bits = static_cast<uint8_t>(code_point >> 6 * (size - 1 - i));
    const uint8_t lead = static_cast<uint8_t>(kForms[form].lead | bits);
    text.push_back(static_cast<char>(i == 0 ? lead : 0x80 | (bits & 0x3F)));
  }
}

}  // namespace ropewalk
