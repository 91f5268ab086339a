#include "data/corpus.h"

#include <sys/stat.h>

#include <cmath>

#include "tests/data/support.h"

namespace ropewalk {
namespace {

std::vector<int32_t> all(const TokenView& view) {
  std::vector<int32_t> ids(view.size);
  view.copy(0, ids);
  return ids;
}

class CorpusFiles : public DataFiles {
 protected:
  std::string refusal(const DataConfig& config, int64_t vocab_size = 0) {
    return data_error([&] { load_corpus(config, vocab_size); });
  }
};

TEST_F(CorpusFiles, TextIsReadInTheOrderOfNamesWithNothingBetween) {
  write("2.txt", "cd");
  write("1.txt", "ab");
  const Corpus corpus = load_corpus({.path = path("*.txt"), .validation_fraction = 0});
  EXPECT_EQ(all(corpus.training()), (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(corpus.held_out().size, 0);
  EXPECT_EQ(corpus.files, (std::vector<std::string>{path("1.txt"), path("2.txt")}));
  EXPECT_EQ(corpus.tokenizer.vocab_size, 256);
}

TEST_F(CorpusFiles, TheEndIsHeldOut) {
  const std::string file = write("a.txt", "0123456789");
  const Corpus corpus = load_corpus({.path = file, .validation_fraction = 0.25});
  EXPECT_EQ(all(corpus.training()), (std::vector<int32_t>{'0', '1', '2', '3', '4', '5', '6'}));
  EXPECT_EQ(all(corpus.held_out()), (std::vector<int32_t>{'7', '8', '9'}));
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_TRUE(contains(refusal({.path = file, .validation_fraction = fraction}), {"validation_fraction", "below 1"}));
  }
}

TEST_F(CorpusFiles, CharsCoverAllFilesAndBothParts) {
  write("1.txt", "aaa");
  write("2.txt", "b\xC3\xA9");
  const Corpus corpus = load_corpus({.path = path("*.txt"), .tokenizer = "chars", .validation_fraction = 0.5});
  EXPECT_EQ(corpus.tokenizer.vocab_size, 3);
  EXPECT_EQ(corpus.tokens.size(), 5);
  EXPECT_EQ(all(corpus.held_out()), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_DOUBLE_EQ(held_out_bytes_per_token(corpus), 4.0 / 3.0);
}

TEST_F(CorpusFiles, CharsFollowAKnownVocabulary) {
  const Corpus first = load_corpus({.path = write("1.txt", "abcd"), .tokenizer = "chars", .validation_fraction = 0});
  const DataConfig other{.path = write("2.txt", "db"), .tokenizer = "chars", .validation_fraction = 0};
  EXPECT_EQ(all(load_corpus(other, 0, &first.tokenizer).training()), (std::vector<int32_t>{3, 1}));
  write("2.txt", "dx");
  EXPECT_TRUE(contains(data_error([&] { load_corpus(other, 0, &first.tokenizer); }), {path("2.txt"), "'x'", "byte 1"}));
  const Tokenizer bytes;
  EXPECT_TRUE(contains(data_error([&] { load_corpus(other, 0, &bytes); }), {"another kind"}));
}

TEST_F(CorpusFiles, BinaryIsNoTextOfChars) {
  write("1.txt", "fine");
  write("2.txt", "ab\xFF");
  EXPECT_TRUE(contains(refusal({.path = path("*.txt"), .tokenizer = "chars"}), {path("2.txt"), "byte 2 (0xFF)"}));
}

TEST_F(CorpusFiles, WrongKeysAreNamed) {
  const std::string file = write("1.txt", "abc");
  EXPECT_TRUE(contains(refusal({.path = file, .tokenizer = "sentencepiece"}), {"sentencepiece", "bytes", "tokens"}));
  EXPECT_TRUE(contains(refusal({.path = file, .tokenizer = "words"}), {"data.tokenizer = words"}));
  EXPECT_TRUE(contains(refusal({.source = "task", .path = file}), {"data.source = task"}));
  EXPECT_TRUE(contains(refusal({.source = "tokens", .path = file}, -1), {"model.vocab_size = -1"}));
}

TEST_F(CorpusFiles, UnusableFilesAreNamed) {
  for (const char* source : {"text", "tokens"}) {
    EXPECT_TRUE(contains(refusal({.source = source, .path = path("none")}), {path("none"), "No such file"}));
    EXPECT_TRUE(contains(refusal({.source = source, .path = path("*.none")}), {path("*.none"), "no file matches"}));
    EXPECT_TRUE(contains(refusal({.source = source, .path = write("empty", "")}), {path("empty"), "is empty"}));
    mkdir(path("folder").c_str(), 0755);
    EXPECT_TRUE(contains(refusal({.source = source, .path = path("folder")}), {path("folder"), "is a directory"}));
  }
}

TEST_F(CorpusFiles, ShardsOfDifferentFormatsAreConcatenated) {
  write("1.bin", pack({5, 6}, 2));
  write("2.bin", llm_c_file(20240520, 1, 1, {7}, 2));
  write("3.bin", llm_c_file(20240801, 7, 2, {100000, 8}, 4));
  const Corpus corpus = load_corpus({.source = "tokens", .path = path("*.bin"), .validation_fraction = 0.2});
  EXPECT_EQ(all(corpus.training()), (std::vector<int32_t>{5, 6, 7, 100000}));
  EXPECT_EQ(all(corpus.held_out()), (std::vector<int32_t>{8}));
  EXPECT_EQ(corpus.tokenizer.vocab_size, 100001);
  EXPECT_TRUE(std::isnan(held_out_bytes_per_token(corpus)));
}

TEST_F(CorpusFiles, AGivenVocabularyRefusesIdsOutsideWithFileAndOffset) {
  write("1.bin", pack({5, 6}, 2));
  write("2.bin", llm_c_file(20240520, 1, 3, {7, 99, 100}, 2));
  const DataConfig config{.source = "tokens", .path = path("*.bin"), .validation_fraction = 0};
  EXPECT_EQ(load_corpus(config, 101).tokenizer.vocab_size, 101);
  EXPECT_TRUE(contains(refusal(config, 100), {path("2.bin"), "token 2 (at byte 1028) is 100", "vocabulary of 100"}));
}

TEST_F(CorpusFiles, IdsThatNoVocabularyHasAreRefused) {
  const DataConfig config{
      .source = "tokens", .path = write("1.bin", pack({5, 4294967295U}, 4)), .token_dtype = "uint32"};
  EXPECT_TRUE(contains(refusal(config), {"token 1 (at byte 4) is 4294967295", "token_dtype"}));
  EXPECT_TRUE(contains(refusal(config, 2147483647), {"4294967295", "2147483647"}));
}

}  // namespace
}  // namespace ropewalk
