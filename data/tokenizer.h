#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ropewalk {

/// How text and token ids correspond:
/// - bytes: the id is the byte (256 of them);
/// - chars: the id is the place among the sorted distinct code points of the training text;
/// - symbols: the id is the place in a list of names, which stand with blanks between them (generated tasks);
/// - ids: the text of a token is its number in decimal, with blanks between them (files of tokens).
struct Tokenizer {
  enum class Kind : uint8_t { bytes, chars, symbols, ids };
  Kind kind = Kind::bytes;
  int64_t vocab_size = 256;
  std::vector<char32_t> chars;       ///< kind chars: [vocab_size], ascending
  std::vector<std::string> symbols;  ///< kind symbols: [vocab_size]
};

/// The tokenizer of all code points in `texts`. Throws DataError with the name of the text and the byte offset where
/// one is not UTF-8. `names` go with `texts`.
Tokenizer char_tokenizer(std::span<const std::string> texts, std::span<const std::string> names);
Tokenizer symbol_tokenizer(std::vector<std::string> names);
Tokenizer id_tokenizer(int64_t vocab_size);

/// The ids of a text. Throws DataError with `name`, the byte offset and the character if it is not in the vocabulary or
/// not UTF-8.
std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, const std::string& name = "text");

/// The text of ids; for bytes it need not be UTF-8. Throws DataError for an id outside the vocabulary.
std::string decode(const Tokenizer& tokenizer, std::span<const int32_t> ids);

/// One token for display on a terminal: printable, with escapes for control characters and single bytes >= 0x80.
std::string token_name(const Tokenizer& tokenizer, int32_t id);

/// The tokenizer as a text file, and back: a line "ropewalk-vocabulary 1 KIND SIZE", then for chars a line "U+HEX"
/// each, for symbols a line with the name each. Loading throws DataError with file and line. `name` stands for the file
/// that a text is from.
std::string tokenizer_text(const Tokenizer& tokenizer);
Tokenizer parse_tokenizer(std::string_view text, const std::string& name);
Tokenizer load_tokenizer(const std::string& path);

}  // namespace ropewalk
