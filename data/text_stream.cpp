#include "data/text_stream.h"

#include <utility>

#include "data/utf8.h"

namespace ropewalk {

std::string TextStream::next(int32_t id) {
  const bool words = tokenizer_->kind == Tokenizer::Kind::symbols || tokenizer_->kind == Tokenizer::Kind::ids;
  held_ += (words && !first_ ? " " : "") + decode(*tokenizer_, {&id, 1});
  first_ = false;
  const std::size_t whole = held_.size() - unfinished_utf8(held_);
  std::string out = held_.substr(0, whole);
  held_.erase(0, whole);
  return out;
}

std::string TextStream::rest() {
  return std::exchange(held_, {});
}

}  // namespace ropewalk
