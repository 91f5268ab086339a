#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/tokenizer.h"
#include "data/tokens.h"

namespace ropewalk {

/// A text as token ids, cut into a training part and, at its end, a held-out part.
struct Corpus {
  TokenStore tokens;
  Tokenizer tokenizer;
  int64_t training_tokens = 0;     ///< tokens [0, training_tokens) train, the others are held out
  std::vector<std::string> files;  ///< in the order in which they were read
  std::string format;              ///< for display, e.g. "chars" or "raw uint16"

  TokenView training() const { return {&tokens, 0, training_tokens}; }
  TokenView held_out() const { return {&tokens, training_tokens, tokens.size() - training_tokens}; }
};

/// Reads the files of `config.path` (source = text or tokens), one after another with nothing between them, and cuts
/// the end: training_tokens = floor(n (1 - validation_fraction)).
/// `vocab_size` is that of source = tokens: 0 takes the greatest id + 1. `known` is the tokenizer of an earlier run
/// over other text, which a chars tokenizer then follows; nullptr: from the text itself. Throws DataError for whatever
/// is wrong with the files or the keys of [data].
Corpus load_corpus(const DataConfig& config, int64_t vocab_size = 0, const Tokenizer* known = nullptr);

/// UTF-8 bytes a token of the held-out part: divides nats a token into nats a byte, in which tokenizers compare. NaN
/// where the text behind the tokens is not known (source = tokens) or nothing is held out.
double held_out_bytes_per_token(const Corpus& corpus);

}  // namespace ropewalk
