#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizer.h"

namespace ropewalk {

/// The text of tokens that come one by one, in pieces that put together are decode() of them all. Where tokens are
/// bytes, those of a UTF-8 character are held back until it is whole, or shown not to be one.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// What can be shown now that `id` has come; may be empty. Throws DataError for an id outside the vocabulary.
  std::string next(int32_t id);
  /// What was held back, at the end.
  std::string rest();

 private:
  const Tokenizer* tokenizer_;
  std::string held_;
  bool first_ = true;
};

}  // namespace ropewalk
