#include "experiments/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace ropewalk {
namespace {

std::string wrapped(bool colour, std::string_view code, std::string_view text) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string blanks_beside(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ');
}

}  // namespace

std::string TextStyle::bold(std::string_view text) const {
  return wrapped(colour, "1", text);
}
std::string TextStyle::faint(std::string_view text) const {
  return wrapped(colour, "2", text);
}
std::string TextStyle::green(std::string_view text) const {
  return wrapped(colour, "32", text);
}
std::string TextStyle::red(std::string_view text) const {
  return wrapped(colour, "31", text);
}

TextStyle style_of(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_colour != nullptr && *no_colour != '\0';
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return {isatty(file_descriptor) == 1 && !refused && !dumb};
}

int terminal_width(int file_descriptor) {
  winsize size = {};
  if (isatty(file_descriptor) == 1 && ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

std::size_t columns(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded_right(std::string_view text, std::size_t width) {
  return std::string(text) + blanks_beside(text, width);
}

std::string padded_left(std::string_view text, std::size_t width) {
  return blanks_beside(text, width) + std::string(text);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<int64_t>(std::min(std::round(seconds), 1e15));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace ropewalk
