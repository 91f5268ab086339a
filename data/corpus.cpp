#include "data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/error.h"
#include "data/files.h"
#include "data/token_file.h"

namespace ropewalk {
namespace {

/// Above any real vocabulary: an id past it, where no vocabulary size is given, means that the file is of another
/// width.
constexpr int64_t kGreatestGuessedVocabulary = int64_t{1} << 24;

Corpus load_text(const DataConfig& config, const Tokenizer* known) {
  if (config.tokenizer == "sentencepiece") {
    throw DataError(
        "data.tokenizer = sentencepiece: this build has no SentencePiece; use bytes or chars, or encode the text "
        "beforehand and read it with source = tokens");
  }
  if (config.tokenizer != "bytes" && config.tokenizer != "chars") {
    throw DataError(fmt::format("data.tokenizer = {}: must be bytes, chars or sentencepiece", config.tokenizer));
  }
  Corpus corpus;
  corpus.files = find_files(config.path);
  corpus.format = config.tokenizer;
  std::vector<std::string> texts;
  texts.reserve(corpus.files.size());
  for (const std::string& file : corpus.files) texts.push_back(read_file(file));

  if (config.tokenizer == "chars") {
    corpus.tokenizer = known ? *known : char_tokenizer(texts, corpus.files);
    if (corpus.tokenizer.kind != Tokenizer::Kind::chars) {
      throw DataError("data.tokenizer = chars, and the vocabulary that goes with the run is of another kind");
    }
  }
  corpus.tokens = TokenStore(corpus.tokenizer.vocab_size);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (const int32_t id : encode(corpus.tokenizer, texts[i], corpus.files[i])) corpus.tokens.append(id);
    texts[i] = std::string();
  }
  return corpus;
}

/// One file of tokens in memory, with the layout that was found in it.
struct Shard {
  std::string content;
  TokenFileLayout layout;
};

uint32_t greatest_id(const Shard& shard) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < shard.layout.count; ++i) {
    greatest = std::max(greatest, token_file_id(shard.content, shard.layout, i));
  }
  return greatest;
}

void append_shard(const Shard& shard, const std::string& file, int64_t vocab_size, TokenStore& tokens) {
  for (int64_t i = 0; i < shard.layout.count; ++i) {
    const uint32_t id = token_file_id(shard.content, shard.layout, i);
    if (id >= vocab_size) {
      throw DataError(
          fmt::format("{}: token {} (at byte {}) is {}, outside the vocabulary of {}; set model.vocab_size, or "
                      "data.token_dtype if this is not {}",
                      file, i, shard.layout.offset + i * shard.layout.width, id, vocab_size, shard.layout.format));
    }
    tokens.append(static_cast<int32_t>(id));
  }
}

Corpus load_token_files(const DataConfig& config, int64_t vocab_size) {
  Corpus corpus;
  corpus.files = find_files(config.path);
  std::vector<Shard> shards;
  int64_t count = 0;
  int64_t greatest = 0;
  for (const std::string& file : corpus.files) {
    Shard& shard = shards.emplace_back();
    shard.content = read_file(file);
    shard.layout = token_file_layout(shard.content, file, config.token_dtype);
    if (vocab_size == 0) greatest = std::max<int64_t>(greatest, greatest_id(shard));
    count += shard.layout.count;
  }
  corpus.format = std::string(shards.front().layout.format);
  if (vocab_size == 0) vocab_size = std::min(greatest + 1, kGreatestGuessedVocabulary);
  corpus.tokenizer = id_tokenizer(vocab_size);
  corpus.tokens = TokenStore(vocab_size);
  corpus.tokens.reserve(count);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    append_shard(shards[i], corpus.files[i], vocab_size, corpus.tokens);
    shards[i].content = std::string();
  }
  return corpus;
}

}  // namespace

Corpus load_corpus(const DataConfig& config, int64_t vocab_size, const Tokenizer* known) {
  const double fraction = config.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw DataError(fmt::format("data.validation_fraction = {}: must be at least 0 and below 1", fraction));
  }
  if (vocab_size < 0 || vocab_size > std::numeric_limits<int32_t>::max()) {
    throw DataError(
        fmt::format("model.vocab_size = {}: must be between 0 (as the data says) and 2^31 - 1", vocab_size));
  }
  Corpus corpus;
  if (config.source == "text") {
    corpus = load_text(config, known);
  } else if (config.source == "tokens") {
    corpus = load_token_files(config, vocab_size);
  } else {
    throw DataError(fmt::format("data.source = {}: must be text or tokens to be read from files", config.source));
  }
  corpus.training_tokens = static_cast<int64_t>(std::floor(static_cast<double>(corpus.tokens.size()) * (1 - fraction)));
  return corpus;
}

double held_out_bytes_per_token(const Corpus& corpus) {
  const TokenView text = corpus.held_out();
  const bool known = corpus.tokenizer.kind == Tokenizer::Kind::bytes || corpus.tokenizer.kind == Tokenizer::Kind::chars;
  if (!known || text.size == 0) return std::numeric_limits<double>::quiet_NaN();
  int64_t bytes = 0;
  for (int64_t i = 0; i < text.size; ++i) {
    const int32_t id = text.at(i);
    bytes += static_cast<int64_t>(decode(corpus.tokenizer, {&id, 1}).size());
  }
  return static_cast<double>(bytes) / static_cast<double>(text.size);
}

}  // namespace ropewalk
