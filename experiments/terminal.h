#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ropewalk {

/// How text may look on a stream.
struct TextStyle {
  bool colour = false;
  bool unicode = false;  ///< characters beyond ASCII

  std::string bold(std::string_view text) const;
  std::string faint(std::string_view text) const;
  std::string green(std::string_view text) const;
  std::string red(std::string_view text) const;
  /// In the i-th of eight colours that the colour-blind tell apart too (Okabe and Ito); then they begin again.
  std::string hue(std::size_t i, std::string_view text) const;
  /// On a ground from dark (0) to bright (1), a scale that is even also without colour vision (viridis).
  std::string heat(double share, std::string_view text) const;
};

/// Colours only where the file descriptor is a terminal, TERM is not `dumb`, and NO_COLOR is not set; Unicode where the
/// locale (LC_ALL, else LC_CTYPE, else LANG) is a UTF-8 one.
TextStyle style_of(int file_descriptor);

/// Text of unknown origin, fit for a terminal: what is not UTF-8, and control characters but line ends and tabs, which
/// could drive it, as \xNN or \u{NN}.
std::string harmless(std::string_view text);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
/// Of the terminal behind the file descriptor; 80 columns of 24 rows where there is none.
TerminalSize terminal_size(int file_descriptor);

/// Code points of UTF-8 text: the columns it takes, as the text of this program has no wide characters.
std::size_t columns(std::string_view utf8);

/// As much of `text` as so many columns hold.
std::string first_columns(std::string_view text, std::size_t width);

/// `text` padded with blanks to so many columns; longer text is left as it is.
std::string padded_right(std::string_view text, std::size_t width);
std::string padded_left(std::string_view text, std::size_t width);

/// `text` broken at blanks after `width` columns, with a line end; later lines are indented.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent);

/// "1 run", "3 runs"
std::string counted(std::size_t count, std::string_view noun);

/// "a, b, c and 4 more": the first `shown` of the parts.
std::string first_of(std::span<const std::string> parts, std::size_t shown);

/// "41 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

}  // namespace ropewalk
