#include "data/tokenizer.h"

#include <array>

#include "data/files.h"
#include "tests/data/support.h"

namespace ropewalk {
namespace {

Tokenizer chars_of(const std::string& text) {
  return char_tokenizer(std::array{text}, std::array{std::string("x.txt")});
}

TEST(Tokenizer, BytesAreTheirOwnIds) {
  const std::string text("\0a\xFF", 3);
  EXPECT_EQ(encode({}, text), (std::vector<int32_t>{0, 97, 255}));
  EXPECT_EQ(decode({}, std::vector<int32_t>{0, 97, 255}), text);
}

TEST(Tokenizer, CharsAreSortedDistinctCodePoints) {
  const Tokenizer tokenizer = chars_of(
      "b\xC3\xA9\xF0\x9F\x98\x80"
      "ab\n");
  EXPECT_EQ(tokenizer.vocab_size, 5);
  EXPECT_EQ(std::u32string(tokenizer.chars.begin(), tokenizer.chars.end()), U"\nab\u00E9\U0001F600");
  const std::vector<int32_t> ids = encode(tokenizer, "\xC3\xA9\xF0\x9F\x98\x80\nb");
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 4, 0, 2}));
  EXPECT_EQ(decode(tokenizer, ids), "\xC3\xA9\xF0\x9F\x98\x80\nb");
}

TEST(Tokenizer, InvalidUtf8IsNamedWithFileAndOffset) {
  EXPECT_TRUE(
      contains(data_error([] { chars_of("ab\xC3\xA9\xFFz"); }), {"x.txt", "byte 4 (0xFF)", "not UTF-8", "bytes"}));
  EXPECT_TRUE(contains(data_error([] { encode(chars_of("ab"), "a\x80", "prompt"); }), {"prompt", "byte 1 (0x80)"}));
}

TEST(Tokenizer, UnknownCharacterIsNamedWithFileAndOffset) {
  EXPECT_TRUE(contains(data_error([] { encode(chars_of("ab"), "ab\xE2\x82\xAC", "prompt"); }),
                       {"prompt", "\xE2\x82\xAC", "U+20AC", "byte 2", "2 characters"}));
}

TEST(Tokenizer, IdsAndSymbolsStandBetweenBlanks) {
  EXPECT_EQ(encode(id_tokenizer(300), " 299\n0\t7 "), (std::vector<int32_t>{299, 0, 7}));
  EXPECT_EQ(decode(id_tokenizer(300), std::vector<int32_t>{299, 0}), "299 0");
  const Tokenizer symbols = symbol_tokenizer({"<pad>", "0", "+"});
  EXPECT_EQ(encode(symbols, "+ 0 +"), (std::vector<int32_t>{2, 1, 2}));
  EXPECT_EQ(decode(symbols, std::vector<int32_t>{2, 0}), "+ <pad>");
  EXPECT_TRUE(encode(symbols, "  ").empty());
  for (const char* bad : {"300", "-1", "1x", "99999999999999999999"}) {
    EXPECT_TRUE(contains(data_error([&] { encode(id_tokenizer(300), bad); }), {bad, "300"})) << bad;
  }
  EXPECT_TRUE(contains(data_error([&] { encode(symbols, "0 x"); }), {"'x'", "byte 2", "<pad> 0 +"}));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  for (const int32_t id : {-1, 256}) {
    EXPECT_TRUE(contains(data_error([&] { decode({}, std::array{id}); }), {std::to_string(id), "256"}));
    EXPECT_TRUE(contains(data_error([&] { token_name({}, id); }), {std::to_string(id), "256"}));
  }
}

TEST(Tokenizer, NamesArePrintable) {
  EXPECT_EQ(token_name({}, 'a'), "a");
  EXPECT_EQ(token_name({}, '\n'), "\\n");
  EXPECT_EQ(token_name({}, 0x1B), "\\x1B");
  EXPECT_EQ(token_name({}, 0xE9), "\\xE9");
  EXPECT_EQ(token_name(chars_of("\xC3\xA9"), 0), "\xC3\xA9");
  EXPECT_EQ(token_name(chars_of("\xC2\x85"), 0), "\\x85");
}

class TokenizerFile : public DataFiles {
 protected:
  std::string error_of(const std::string& content) {
    const std::string file = write("vocabulary.txt", content);
    return data_error([&] { load_tokenizer(file); });
  }
};

TEST_F(TokenizerFile, EveryKindRoundTrips) {
  for (const Tokenizer& tokenizer : {Tokenizer{},
                                     chars_of("a\n\r \xE2\x82\xAC"
                                              "b\x01"),
                                     id_tokenizer(50257), symbol_tokenizer({"<pad>", "a", "+"})}) {
    const Tokenizer loaded = load_tokenizer(write("vocabulary.txt", tokenizer_text(tokenizer)));
    EXPECT_EQ(loaded.kind, tokenizer.kind);
    EXPECT_EQ(loaded.vocab_size, tokenizer.vocab_size);
    EXPECT_EQ(loaded.chars, tokenizer.chars);
    EXPECT_EQ(loaded.symbols, tokenizer.symbols);
  }
}

TEST_F(TokenizerFile, DamageIsNamedWithItsLine) {
  const std::string magic = "ropewalk-vocabulary 1 ";
  EXPECT_TRUE(contains(error_of("hello\n"), {":1:", "not a vocabulary"}));
  EXPECT_TRUE(contains(error_of(magic + "words 3\n"), {":1:", "words 3"}));
  EXPECT_TRUE(contains(error_of(magic + "chars\n"), {":1:", "size"}));
  EXPECT_TRUE(contains(error_of(magic + "ids 99999999999\n"), {":1:", "99999999999"}));
  EXPECT_TRUE(contains(error_of(magic + "ids 0\n"), {":1:", "ids 0"}));
  EXPECT_TRUE(contains(error_of(magic + "bytes 255\n"), {":1:", "255"}));
  EXPECT_TRUE(contains(error_of(magic + "ids 3\nx\n"), {":2:", "nothing may follow"}));
  EXPECT_TRUE(contains(error_of(magic + "chars 2000000000\nU+0041\n"), {"1 of 2000000000"}));
  EXPECT_TRUE(contains(error_of(magic + "chars 1\nU+0041\nU+0042\n"), {"2 of 1"}));
  EXPECT_TRUE(contains(error_of(magic + "chars 2\nU+0042\nU+0041\n"), {":3:", "ascend"}));
  EXPECT_TRUE(contains(error_of(magic + "chars 2\nU+0041\nU+0041\n"), {":3:", "ascend"}));
  for (const char* line : {"A", "U+", "U+D800", "U+110000", "U+-1", "U+0041x"}) {
    EXPECT_TRUE(contains(error_of(magic + "chars 1\n" + line + "\n"), {":2:", line})) << line;
  }
  EXPECT_TRUE(contains(error_of(magic + "symbols 1\na b\n"), {":2:", "one word"}));
}

}  // namespace
}  // namespace ropewalk
