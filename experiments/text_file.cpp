#include "experiments/text_file.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace ropewalk {

std::optional<std::string> text_of(const std::string& path) {
  constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 26;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kLargest) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string tail_of(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size <= 0) return "";
  const std::streamoff wanted = std::min(size, static_cast<std::streamoff>(bytes));
  std::string text(static_cast<std::size_t>(wanted), '\0');
  file.seekg(size - wanted);
  file.read(text.data(), wanted);
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

}  // namespace ropewalk
