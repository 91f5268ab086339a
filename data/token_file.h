#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ropewalk {

/// Where the ids lie in a file of tokens: `count` little-endian unsigned integers of `width` bytes from byte `offset`
/// on.
struct TokenFileLayout {
  int64_t offset = 0;
  int64_t width = 2;
  int64_t count = 0;
  std::string_view format;  ///< for display
};

/// Finds out the layout of a file from its first bytes and size. With dtype "auto": an llm.c header (int32[256]: magic
/// 20240520, version 1, count, then uint16; or 20240801, 7, count, then uint32), else raw uint16 as nanoGPT writes it.
/// With "uint16" or "uint32": raw, whatever the first bytes are. Throws DataError, naming `path`, where size and header
/// disagree, the version is another, or the file is of a known format that this does not read.
TokenFileLayout token_file_layout(std::string_view content, const std::string& path, const std::string& dtype);

/// The i-th id. Precondition: 0 <= i < layout.count.
uint32_t token_file_id(std::string_view content, const TokenFileLayout& layout, int64_t i);

}  // namespace ropewalk
