#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "data/error.h"
#include "data/files.h"
#include "data/utf8.h"

namespace ropewalk {
namespace {

constexpr std::string_view kMagic = "ropewalk-vocabulary 1 ";
constexpr std::array<std::string_view, 4> kKindNames = {"bytes", "chars", "symbols", "ids"};
constexpr std::size_t kCodePoints = 0x110000;

[[noreturn]] void refuse_utf8(const std::string& name, std::string_view text, std::size_t offset) {
  throw DataError(
      fmt::format("{}: byte {} (0x{:02X}) is not UTF-8; is this a text file? The tokenizer 'bytes' reads any "
                  "file, source = tokens reads files of token ids",
                  name, offset, static_cast<uint8_t>(text[offset])));
}

void check_id(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer.vocab_size) {
    throw DataError(fmt::format("token id {} is outside the vocabulary of {}", id, tokenizer.vocab_size));
  }
}

/// The whole of `text` as a number in the given base, if it is one.
std::optional<int64_t> parse_number(std::string_view text, int base) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int32_t id_of_word(const Tokenizer& tokenizer, std::string_view word, const std::string& name, std::size_t offset) {
  if (tokenizer.kind == Tokenizer::Kind::symbols) {
    const auto found = std::ranges::find(tokenizer.symbols, word);
    if (found != tokenizer.symbols.end()) return static_cast<int32_t>(found - tokenizer.symbols.begin());
    throw DataError(fmt::format("{}: '{}' at byte {} is not a symbol of this task; the symbols are: {}", name, word,
                                offset, fmt::join(tokenizer.symbols, " ")));
  }
  const std::optional<int64_t> id = parse_number(word, 10);
  if (!id || *id < 0 || *id >= tokenizer.vocab_size) {
    throw DataError(fmt::format("{}: '{}' at byte {} is not a token id below the vocabulary's {}", name, word, offset,
                                tokenizer.vocab_size));
  }
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> encode_words(const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<int32_t> ids;
  std::size_t begin = text.find_first_not_of(kBlanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    ids.push_back(id_of_word(tokenizer, text.substr(begin, end - begin), name, begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return ids;
}

std::vector<int32_t> encode_chars(const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint c = decode_utf8(text, offset);
    if (c.size == 0) refuse_utf8(name, text, offset);
    const auto found = std::ranges::lower_bound(tokenizer.chars, c.value);
    if (found == tokenizer.chars.end() || *found != c.value) {
      throw DataError(
          fmt::format("{}: the character '{}' (U+{:04X}) at byte {} is not in the vocabulary of {} characters", name,
                      text.substr(offset, c.size), static_cast<uint32_t>(c.value), offset, tokenizer.vocab_size));
    }
    ids.push_back(static_cast<int32_t>(found - tokenizer.chars.begin()));
    offset += c.size;
  }
  return ids;
}

/// Takes the next line off the front of `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

[[noreturn]] void refuse_line(const std::string& path, int64_t line, const std::string& problem) {
  throw DataError(fmt::format("{}:{}: {}", path, line, problem));
}

char32_t parse_char_line(std::string_view text, const std::string& path, int64_t line) {
  std::optional<int64_t> value;
  if (text.starts_with("U+")) value = parse_number(text.substr(2), 16);
  const bool fits = value && *value >= 0 && *value < static_cast<int64_t>(kCodePoints);
  if (!fits || (*value >= 0xD800 && *value <= 0xDFFF)) {
    refuse_line(path, line, fmt::format("'{}' is not a code point such as U+0041", text.substr(0, 40)));
  }
  return static_cast<char32_t>(*value);
}

}  // namespace

Tokenizer char_tokenizer(std::span<const std::string> texts, std::span<const std::string> names) {
  std::vector<bool> seen(kCodePoints);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t offset = 0; offset < texts[i].size();) {
      const CodePoint c = decode_utf8(texts[i], offset);
      if (c.size == 0) refuse_utf8(names[i], texts[i], offset);
      seen[c.value] = true;
      offset += c.size;
    }
  }
  Tokenizer tokenizer{.kind = Tokenizer::Kind::chars, .vocab_size = 0, .chars = {}, .symbols = {}};
  for (std::size_t c = 0; c < kCodePoints; ++c) {
    if (seen[c]) tokenizer.chars.push_back(static_cast<char32_t>(c));
  }
  tokenizer.vocab_size = static_cast<int64_t>(tokenizer.chars.size());
  return tokenizer;
}

Tokenizer symbol_tokenizer(std::vector<std::string> names) {
  Tokenizer tokenizer{.kind = Tokenizer::Kind::symbols, .vocab_size = 0, .chars = {}, .symbols = std::move(names)};
  tokenizer.vocab_size = static_cast<int64_t>(tokenizer.symbols.size());
  return tokenizer;
}

Tokenizer id_tokenizer(int64_t vocab_size) {
  return {.kind = Tokenizer::Kind::ids, .vocab_size = vocab_size, .chars = {}, .symbols = {}};
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, const std::string& name) {
  switch (tokenizer.kind) {
    case Tokenizer::Kind::bytes: {
      std::vector<int32_t> ids(text.size());
      std::ranges::transform(text, ids.begin(), [](char c) { return static_cast<uint8_t>(c); });
      return ids;
    }
    case Tokenizer::Kind::chars:
      return encode_chars(tokenizer, text, name);
    case Tokenizer::Kind::symbols:
    case Tokenizer::Kind::ids:
      break;
  }
  return encode_words(tokenizer, text, name);
}

std::string decode(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check_id(tokenizer, ids[i]);
    switch (tokenizer.kind) {
      case Tokenizer::Kind::bytes:
        text.push_back(static_cast<char>(ids[i]));
        break;
      case Tokenizer::Kind::chars:
        append_utf8(text, tokenizer.chars[ids[i]]);
        break;
      case Tokenizer::Kind::symbols:
        text += (i > 0 ? " " : "") + tokenizer.symbols[ids[i]];
        break;
      case Tokenizer::Kind::ids:
        text += (i > 0 ? " " : "") + std::to_string(ids[i]);
        break;
    }
  }
  return text;
}

std::string token_name(const Tokenizer& tokenizer, int32_t id) {
  check_id(tokenizer, id);
  if (tokenizer.kind == Tokenizer::Kind::symbols || tokenizer.kind == Tokenizer::Kind::ids) {
    return decode(tokenizer, {&id, 1});
  }
  const bool bytes = tokenizer.kind == Tokenizer::Kind::bytes;
  const char32_t c = bytes ? static_cast<char32_t>(id) : tokenizer.chars[id];
  if (c == U'\n') return "\\n";
  if (c == U'\t') return "\\t";
  if (c == U'\r') return "\\r";
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || (bytes && c >= 0x80)) {
    return fmt::format("\\x{:02X}", static_cast<uint32_t>(c));
  }
  return decode(tokenizer, {&id, 1});
}

std::string tokenizer_text(const Tokenizer& tokenizer) {
  std::string content =
      fmt::format("{}{} {}\n", kMagic, kKindNames[static_cast<std::size_t>(tokenizer.kind)], tokenizer.vocab_size);
  for (const char32_t c : tokenizer.chars) content += fmt::format("U+{:04X}\n", static_cast<uint32_t>(c));
  for (const std::string& name : tokenizer.symbols) content += name + "\n";
  return content;
}

Tokenizer load_tokenizer(const std::string& path) {
  return parse_tokenizer(read_file(path), path);
}

Tokenizer parse_tokenizer(std::string_view rest, const std::string& path) {
  std::string_view header = take_line(rest);
  if (!header.starts_with(kMagic)) {
    refuse_line(path, 1, fmt::format("not a vocabulary: the line does not begin with '{}'", kMagic));
  }
  header.remove_prefix(kMagic.size());
  const std::size_t blank = std::min(header.find(' '), header.size());
  const auto kind = std::ranges::find(kKindNames, header.substr(0, blank));
  const std::optional<int64_t> size = parse_number(header.substr(std::min(blank + 1, header.size())), 10);
  if (kind == kKindNames.end() || !size || *size < 1 || *size > std::numeric_limits<int32_t>::max()) {
    refuse_line(path, 1, fmt::format("'{}' is not a kind (bytes, chars, symbols, ids) and a size", header));
  }

  Tokenizer tokenizer;
  tokenizer.kind = static_cast<Tokenizer::Kind>(kind - kKindNames.begin());
  tokenizer.vocab_size = *size;
  int64_t line = 1;
  while (!rest.empty()) {
    const std::string_view text = take_line(rest);
    ++line;
    if (tokenizer.kind == Tokenizer::Kind::chars) {
      const char32_t c = parse_char_line(text, path, line);
      if (!tokenizer.chars.empty() && c <= tokenizer.chars.back()) {
        refuse_line(path, line, fmt::format("{} is not after the character before it; they must ascend", text));
      }
      tokenizer.chars.push_back(c);
    } else if (tokenizer.kind == Tokenizer::Kind::symbols) {
      if (text.empty() || text.find_first_of(" \t\r") != std::string_view::npos) {
        refuse_line(path, line, "a symbol must be one word");
      }
      tokenizer.symbols.emplace_back(text);
    } else {
      refuse_line(path, line, "nothing may follow the first line of this kind of vocabulary");
    }
  }
  const bool listed = tokenizer.kind == Tokenizer::Kind::chars || tokenizer.kind == Tokenizer::Kind::symbols;
  const int64_t expected = listed ? *size : 0;
  if (line - 1 != expected) {
    refuse_line(path, line, fmt::format("the vocabulary ends after {} of {} entries", line - 1, expected));
  }
  if (tokenizer.kind == Tokenizer::Kind::bytes && *size != 256) {
    refuse_line(path, 1, fmt::format("bytes are 256, not {}", *size));
  }
  return tokenizer;
}

}  // namespace ropewalk
