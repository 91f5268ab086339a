#include "train/decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/error.h"
#include "framework/ops/slice.h"

namespace ropewalk {
namespace {

/// Places of each sequence that one pass takes, which bounds the memory of a long prompt.
constexpr int64_t kPartOfPrompt = 512;

}  // namespace

Decoder::Decoder(Transformer& model, int64_t sequences, int64_t capacity, std::vector<int64_t> padding)
    : model_(model),
      cache_(model.make_cache(sequences, capacity, std::move(padding))),
      logits_(Tensor::zeros({sequences, model.config().model.vocab_size}, model.dtype())) {
  require(model.config().attention.causal,
          "attention.causal = false: a model whose tokens see later ones cannot be decoded token by token");
}

const Tensor& Decoder::feed(std::span<const int32_t> tokens, int64_t count) {
  const int64_t sequences = cache_.sequences();
  require(count >= 1 && static_cast<int64_t>(tokens.size()) == sequences * count,
          "{} tokens are fed to {} sequences, {} each", tokens.size(), sequences, count);
  const int64_t part = model_.depends_on_length() ? count : kPartOfPrompt;
  for (int64_t begin = 0, length = 0; begin < count; begin += length) {
    length = std::min(part, count - begin);
    part_.resize(static_cast<std::size_t>(sequences * length));
    for (int64_t b = 0; b < sequences; ++b) {
      std::copy_n(tokens.begin() + b * count + begin, length, part_.begin() + b * length);
    }
    model_.prepare(cache_.length() + length, {.capacity = cache_.capacity()});
    Tape tape(workspace_, Mode::inference, &model_.parameters());
    ForwardPass pass{.tape = tape, .sequences = sequences, .length = length, .cache = &cache_};
    const Var hidden = model_.blocks(pass, model_.embed(pass, part_.data()));
    if (begin + length < count) continue;
    const Tensor& value = model_.head(last_rows(hidden, 1)).value();
    logits_.shape = {sequences, value.shape[-1]};
    std::memcpy(logits_.bytes, value.bytes, value.size_bytes());
  }
  return logits_;
}

}  // namespace ropewalk
