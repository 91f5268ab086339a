#include "train/greedy.h"

#include "data/tasks/task.h"
#include "framework/ops/linear_cross_entropy.h"

namespace ropewalk {
namespace {

bool ends(int32_t token) {
  return token == kEnd || token == kPad;
}

}  // namespace

GreedyAnswers::GreedyAnswers(const Transformer& model, const BatchPart& part, int64_t most)
    : model_(model),
      part_(part),
      most_(most),
      cache_(model.make_cache(part.sequences, most)),
      open_(part.sequences),
      tokens_(static_cast<std::size_t>(part.sequences * most), kPad),
      next_(static_cast<std::size_t>(part.sequences), kBegin),
      targets_(static_cast<std::size_t>(part.sequences), kIgnored),
      losses_(static_cast<std::size_t>(part.sequences)) {}

void GreedyAnswers::step(Workspace& workspace) {
  Tape tape(workspace, Mode::inference, &model_.parameters());
  ForwardPass pass{.tape = tape, .sequences = part_.sequences, .length = 1, .cache = &cache_};
  if (length_ == 0) {
    part_.encode(model_, pass);
  } else {
    // The cache has the memory itself.
    pass.memory_lengths = part_.source.lengths;
  }
  const Var hidden = model_.blocks(pass, model_.embed(pass, next_.data()));
  linear_token_losses(hidden.value(), model_.head_weight(tape).value(), targets_.data(), tape.arena(), losses_.data(),
                      next_.data());
  for (int64_t b = 0; b < part_.sequences; ++b) {
    int32_t* answer = tokens_.data() + b * most_;
    if (length_ > 0 && ends(answer[length_ - 1])) continue;
    answer[length_] = next_[static_cast<std::size_t>(b)];
    if (ends(answer[length_])) --open_;
  }
  ++length_;
}

}  // namespace ropewalk
