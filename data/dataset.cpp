#include "data/dataset.h"

#include <fmt/format.h>

#include <utility>

#include "data/error.h"
#include "data/random.h"

namespace ropewalk {
namespace {

constexpr uint64_t kEvaluationSeed = 0;

/// FNV-1a over 64-bit words.
class Hash {
 public:
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

class CorpusDataset : public Dataset {
 public:
  explicit CorpusDataset(Corpus corpus) : corpus_(std::move(corpus)) {
    Hash hash;
    hash.add(static_cast<uint64_t>(vocab_size()));
    for (int64_t i = 0; i < corpus_.training_tokens; ++i) hash.add(static_cast<uint64_t>(corpus_.tokens.at(i)));
    fingerprint_ = hash.value();
  }

  const Tokenizer& tokenizer() const override { return corpus_.tokenizer; }
  const Corpus* corpus() const override { return &corpus_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const override {
    const auto length = static_cast<int64_t>(tokens.size());
    const TokenView text = corpus_.training();
    check_training_length(text.size, length);
    const int64_t start = CounterRandom(seed, DataStream::train_window, step, index).below(text.size - length);
    text.copy(start, tokens);
    text.copy(start + 1, targets);
  }

  std::string describe() const override {
    const std::size_t others = corpus_.files.size() - 1;
    return fmt::format("{}{}: {} tokens ({}), vocabulary {}, {} for training, {} held out", corpus_.files.front(),
                       others > 0 ? fmt::format(" and {} more", others) : "", corpus_.tokens.size(), corpus_.format,
                       vocab_size(), corpus_.training_tokens, corpus_.held_out().size);
  }

  static void check_training_length(int64_t training_tokens, int64_t length) {
    if (length >= 1 && training_tokens > length) return;
    throw DataError(fmt::format(
        "the training text has {} tokens, a sequence of train.context_length = {} needs {}; take more text, "
        "a shorter context or a smaller data.validation_fraction",
        training_tokens, length, length + 1));
  }

 private:
  Corpus corpus_;
  uint64_t fingerprint_ = 0;
};

class TaskDataset : public Dataset {
 public:
  explicit TaskDataset(const Task& task) : task_(task), tokenizer_(symbol_tokenizer(task_symbols(task))) {}

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const Task* task() const override { return &task_; }

  void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const override {
    fill_training_problem(task_, seed, step, index, tokens, targets);
  }

  std::string describe() const override {
    return fmt::format(
        "{}: {}, {} to {} {} in training, {}{}, vocabulary {}", task_.kind->name, task_.kind->summary, task_.min_length,
        task_.max_length, task_.kind->length_unit,
        task_.train_problems == 0 ? "every problem fresh" : fmt::format("{} problems", task_.train_problems),
        task_.least_significant_first ? ", least significant digit first" : "", vocab_size());
  }

  uint64_t fingerprint() const override {
    Hash hash;
    for (const char c : task_.kind->name) hash.add(static_cast<uint8_t>(c));
    for (const int64_t value : {task_.alphabet, task_.min_length, task_.max_length, task_.train_problems}) {
      hash.add(static_cast<uint64_t>(value));
    }
    hash.add(task_.least_significant_first ? 1 : 0);
    return hash.value();
  }

 private:
  Task task_;
  Tokenizer tokenizer_;
};

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, int64_t context_length, int64_t vocab_size,
                                      const Tokenizer* known) {
  if (context_length < 1) {
    throw DataError(fmt::format("train.context_length = {}: must be at least 1", context_length));
  }
  if (config.source == "task") {
    const Task task = make_task(config);
    const int64_t needed = problem_tokens(task, task.max_length);
    if (needed > context_length) {
      throw DataError(
          fmt::format("{}: data.max_length = {} {} takes {} tokens, train.context_length has {}; raise the context or "
                      "lower the length",
                      task.kind->name, task.max_length, task.kind->length_unit, needed, context_length));
    }
    return std::make_unique<TaskDataset>(task);
  }
  if (config.source != "text" && config.source != "tokens") {
    throw DataError(fmt::format("data.source = {}: must be text, tokens or task", config.source));
  }
  Corpus corpus = load_corpus(config, vocab_size, known);
  CorpusDataset::check_training_length(corpus.training_tokens, context_length);
  return std::make_unique<CorpusDataset>(std::move(corpus));
}

void fill_training_batch(const Dataset& dataset, uint64_t seed, int64_t step, int64_t first_index, Batch& batch) {
  for (int64_t i = 0; i < batch.sequences; ++i) {
    dataset.fill_training(seed, step, first_index + i, batch.row_tokens(i), batch.row_targets(i));
  }
}

void fill_evaluation_batch(const Task& task, int64_t length, int64_t first_index, Batch& batch) {
  for (int64_t i = 0; i < batch.sequences; ++i) {
    fill_evaluation_problem(task, kEvaluationSeed, length, first_index + i, batch.row_tokens(i), batch.row_targets(i));
  }
}

}  // namespace ropewalk
