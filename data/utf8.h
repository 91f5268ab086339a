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

/// How many bytes at the end of `text` are the beginning of a code point that more bytes could make whole; 0 where it
/// ends with a whole one, or with what cannot become one.
std::size_t unfinished_utf8(std::string_view text);

/// Appends the UTF-8 form of a code point.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace ropewalk
