#include "data/text_stream.h"

#include <array>

#include "tests/data/support.h"

namespace ropewalk {
namespace {

/// What is shown token by token, and at the end.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  TextStream stream(tokenizer);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(stream.next(id));
  out.push_back(stream.rest());
  return out;
}

TEST(TextStream, HoldsTheBytesOfACharacterBackUntilItIsWhole) {
  const Tokenizer bytes;
  EXPECT_EQ(pieces_of(bytes, {'a', 0xE2, 0x82, 0xAC, 'b'}),
            (std::vector<std::string>{"a", "", "", "\xE2\x82\xAC", "b", ""}));
  EXPECT_EQ(pieces_of(bytes, {0xF0, 0x9F, 0x98, 0x80}), (std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80", ""}));
}

TEST(TextStream, WhatCanBecomeNoCharacterIsNotHeldBack) {
  const Tokenizer bytes;
  EXPECT_EQ(pieces_of(bytes, {0x80, 0xC3, 'a', 0xFF}), (std::vector<std::string>{"\x80", "",
                                                                                 "\xC3"
                                                                                 "a",
                                                                                 "\xFF", ""}));
  EXPECT_EQ(pieces_of(bytes, {'a', 0xE2, 0x82}), (std::vector<std::string>{"a", "", "", "\xE2\x82"}))
      << "cut off by the end";
}

TEST(TextStream, PiecesTogetherAreTheDecodedText) {
  const Tokenizer chars = char_tokenizer(std::array{std::string("b\xC3\xA9\n")}, std::array{std::string("x")});
  const Tokenizer symbols = symbol_tokenizer({"<begin>", "a", "b"});
  const std::vector<int32_t> ids = {0, 2, 1, 1};
  for (const Tokenizer& tokenizer : {chars, symbols, id_tokenizer(3)}) {
    std::string text;
    for (const std::string& piece : pieces_of(tokenizer, ids)) text += piece;
    EXPECT_EQ(text, decode(tokenizer, ids));
  }
  EXPECT_EQ(pieces_of(symbols, ids), (std::vector<std::string>{"<begin>", " b", " a", " a", ""}));
  EXPECT_EQ(data_error([&] { pieces_of(symbols, {3}); }), "token id 3 is outside the vocabulary of 3");
}

}  // namespace
}  // namespace ropewalk
