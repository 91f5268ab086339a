#include "data/token_file.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "data/error.h"

namespace ropewalk {
namespace {

using namespace std::string_view_literals;

constexpr int64_t kHeaderBytes = 256 * 4;

struct HeaderFormat {
  uint32_t magic;
  uint32_t version;
  int64_t width;
  std::string_view name;
};
constexpr std::array<HeaderFormat, 2> kHeaderFormats = {
    {{20240520, 1, 2, "llm.c GPT-2 shard"}, {20240801, 7, 4, "llm.c Llama 3 shard"}}};

/// First bytes that tell a file of another kind, which as raw uint16 would be read as nonsense.
struct ForeignFormat {
  std::string_view start;
  std::string_view name;
};
constexpr std::array<ForeignFormat, 5> kForeignFormats = {{{"\x93NUMPY"sv, "a NumPy .npy file"},
                                                           {"\x1F\x8B\x08"sv, "a gzip file"},
                                                           {"PK\x03\x04"sv, "a zip file"},
                                                           {"MMIDIDX\x00\x00"sv, "a Megatron index"},
                                                           {"\xCB\x99\x9F\x10"sv, "a NeMo token file"}}};

uint32_t little_endian(std::string_view bytes, std::size_t offset, int64_t width) {
  uint32_t value = 0;
  for (int64_t i = width - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

TokenFileLayout raw_layout(std::string_view content, const std::string& path, int64_t width) {
  const auto size = static_cast<int64_t>(content.size());
  if (size % width != 0) {
    throw DataError(fmt::format(
        "{}: {} bytes are not a whole number of uint{} tokens; the file is cut, or data.token_dtype is another", path,
        size, 8 * width));
  }
  return {0, width, size / width, width == 2 ? "raw uint16" : "raw uint32"};
}

TokenFileLayout header_layout(std::string_view content, const std::string& path, const HeaderFormat& format) {
  const auto size = static_cast<int64_t>(content.size());
  if (size < kHeaderBytes) {
    throw DataError(
        fmt::format("{}: {} bytes, less than the header of {} of an {}", path, size, kHeaderBytes, format.name));
  }
  const uint32_t version = little_endian(content, 4, 4);
  if (version != format.version) {
    throw DataError(
        fmt::format("{}: version {} of an {}; only version {} is known", path, version, format.name, format.version));
  }
  const auto count = static_cast<int32_t>(little_endian(content, 8, 4));
  const int64_t expected = kHeaderBytes + count * format.width;
  if (count < 0 || expected != size) {
    throw DataError(fmt::format("{}: the header of this {} says {} tokens, which take {} bytes; the file has {}", path,
                                format.name, count, expected, size));
  }
  if (count == 0) throw DataError(fmt::format("{}: this {} holds no tokens", path, format.name));
  return {kHeaderBytes, format.width, count, format.name};
}

}  // namespace

TokenFileLayout token_file_layout(std::string_view content, const std::string& path, const std::string& dtype) {
  if (dtype == "uint16") return raw_layout(content, path, 2);
  if (dtype == "uint32") return raw_layout(content, path, 4);
  if (dtype != "auto") {
    throw DataError(fmt::format("data.token_dtype = {}: must be auto, uint16 or uint32", dtype));
  }
  if (content.size() >= 4) {
    const uint32_t magic = little_endian(content, 0, 4);
    for (const HeaderFormat& format : kHeaderFormats) {
      if (magic == format.magic) return header_layout(content, path, format);
    }
  }
  for (const ForeignFormat& format : kForeignFormats) {
    if (!content.starts_with(format.start)) continue;
    throw DataError(fmt::format(
        "{}: looks like {}, which is not read; write the ids as raw little-endian uint16 (or, if they are just that, "
        "set data.token_dtype = uint16)",
        path, format.name));
  }
  return raw_layout(content, path, 2);
}

uint32_t token_file_id(std::string_view content, const TokenFileLayout& layout, int64_t i) {
  return little_endian(content, static_cast<std::size_t>(layout.offset + i * layout.width), layout.width);
}

}  // namespace ropewalk
