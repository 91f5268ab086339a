#include "experiments/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "data/utf8.h"
#include "train/text.h"

namespace ropewalk {
namespace {

std::string escaped(bool colour, std::string_view code, std::string_view text) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string blanks_beside(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ');
}

}  // namespace

std::string TextStyle::bold(std::string_view text) const {
  return escaped(colour, "1", text);
}
std::string TextStyle::faint(std::string_view text) const {
  return escaped(colour, "2", text);
}
std::string TextStyle::green(std::string_view text) const {
  return escaped(colour, "32", text);
}
std::string TextStyle::red(std::string_view text) const {
  return escaped(colour, "31", text);
}

std::string TextStyle::hue(std::size_t i, std::string_view text) const {
  // Of the 256 colours of terminals, the nearest to those of Okabe and Ito that show on dark and light grounds.
  constexpr std::array<const char*, 8> kHues = {"38;5;32", "38;5;208", "38;5;36",  "38;5;169",
                                                "38;5;74", "38;5;166", "38;5;178", "38;5;244"};
  return escaped(colour, kHues[i % kHues.size()], text);
}
std::string TextStyle::heat(double share, std::string_view text) const {
  constexpr std::array<int, 12> kViridis = {53, 54, 60, 24, 30, 31, 36, 72, 71, 77, 149, 227};
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(kViridis.size() - 1);
  return escaped(colour, fmt::format("48;5;{}", kViridis[static_cast<std::size_t>(std::lround(at))]), text);
}

namespace {

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string lower(value);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

TextStyle style_of(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_colour != nullptr && *no_colour != '\0';
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return {.colour = isatty(file_descriptor) == 1 && !refused && !dumb, .unicode = locale_is_utf8()};
}

std::string harmless(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool control =
        (c.value < 0x20 && c.value != U'\n' && c.value != U'\t') || (c.value >= 0x7F && c.value < 0xA0);
    if (c.size == 0) {
      out += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
    } else if (control) {
      out += fmt::format("\\u{{{:X}}}", static_cast<uint32_t>(c.value));
    } else {
      out += text.substr(at, c.size);
    }
    at += std::max<std::size_t>(c.size, 1);
  }
  return out;
}

TerminalSize terminal_size(int file_descriptor) {
  winsize size = {};
  if (isatty(file_descriptor) == 1 && ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
      size.ws_row > 0) {
    return {size.ws_col, size.ws_row};
  }
  return {};
}

std::size_t columns(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string first_columns(std::string_view text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t shown = 0; end < text.size() && shown < width; ++shown) {
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  }
  return std::string(text.substr(0, end));
}

std::string padded_right(std::string_view text, std::size_t width) {
  return std::string(text) + blanks_beside(text, width);
}

std::string padded_left(std::string_view text, std::size_t width) {
  return blanks_beside(text, width) + std::string(text);
}

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find(' ', begin);
    if (end == begin && column > 0) {  // blanks that are meant
      out += ' ';
      ++column;
      ++begin;
      continue;
    }
    if (end == begin) end = text.find_first_not_of(' ', begin);
    const std::string word = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (column + columns(word) > width && column > indent) {
      while (!out.empty() && out.back() == ' ') out.pop_back();
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    out += word;
    column += columns(word);
    begin = end == std::string::npos ? text.size() : end;
  }
  return out + "\n";
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string first_of(std::span<const std::string> parts, std::size_t shown) {
  if (parts.size() <= shown) return joined(parts);
  return fmt::format("{} and {} more", joined(parts.first(shown)), parts.size() - shown);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::min(std::round(seconds), 1e15));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace ropewalk
