#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ropewalk {

/// The code point that begins at `offset` of UTF-8 text, and how many bytes it takes; `size` is 0 where the bytes are
/// not UTF-8 (a stray or missing continuation, an overlong form, a surrogate, past U+10FFFF, cut off by the end).
struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;
};
CodePoint decode_utf8(std::string_view text, std::size_t offset);

/// Appends the UTF-8 form of a code point.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace ropewalk
