#include "train/model_batch.h"

namespace ropewalk {

void BatchPart::encode(const Transformer& model, ForwardPass& pass) const {
  if (source.tokens != nullptr) model.encode(pass, source);
}

void ModelBatch::resize(int64_t sequences, const SequenceShape& shape) {
  const bool pairs = shape.source > 0;
  if (pairs != std::holds_alternative<PairBatch>(batch_)) {
    if (pairs) {
      batch_ = PairBatch{};
    } else {
      batch_ = Batch{};
    }
  }
  if (pairs) {
    std::get<PairBatch>(batch_).resize(sequences, shape.source, shape.length);
  } else {
    std::get<Batch>(batch_).resize(sequences, shape.length);
  }
}

void ModelBatch::fill_training(const Dataset& dataset, uint64_t seed, int64_t step) {
  if (auto* pairs = std::get_if<PairBatch>(&batch_)) {
    fill_training_pairs(*dataset.task(), seed, step, 0, *pairs);
  } else {
    fill_training_batch(dataset, seed, step, 0, std::get<Batch>(batch_));
  }
}

void ModelBatch::fill_evaluation(const Task& task, int64_t length, int64_t first_index) {
  if (auto* pairs = std::get_if<PairBatch>(&batch_)) {
    fill_evaluation_pairs(task, length, first_index, *pairs);
  } else {
    fill_evaluation_batch(task, length, first_index, std::get<Batch>(batch_));
  }
}

void ModelBatch::fill_held_out(const Dataset& dataset, std::span<const Window> windows) {
  Batch& batch = std::get<Batch>(batch_);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    dataset.fill_held_out(windows[i], batch.row_tokens(row), batch.row_targets(row));
  }
}

int64_t ModelBatch::counted() const {
  return std::visit([](const auto& batch) { return batch.counted(); }, batch_);
}

BatchPart ModelBatch::part(int64_t first, int64_t count) const {
  if (const auto* pairs = std::get_if<PairBatch>(&batch_)) {
    const int64_t at = first * pairs->target_length;
    return {.sequences = count,
            .length = pairs->target_length,
            .tokens = pairs->inputs.data() + at,
            .targets = pairs->targets.data() + at,
            .source = {.tokens = pairs->sources.data() + first * pairs->source_length,
                       .length = pairs->source_length,
                       .lengths = std::span(pairs->source_lengths).subspan(first, count)}};
  }
  const Batch& batch = std::get<Batch>(batch_);
  const int64_t at = first * batch.length;
  return {.sequences = count,
          .length = batch.length,
          .tokens = batch.tokens.data() + at,
          .targets = batch.targets.data() + at};
}

void prepare(Transformer& model, const SequenceShape& shape, const PositionDraw& draw) {
  model.prepare(shape.length, draw);
  if (shape.source > 0) model.prepare_source(shape.source, draw);
}

}  // namespace ropewalk
