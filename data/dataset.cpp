#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <utility>

#include "data/error.h"
#include "data/masking.h"
#include "data/random.h"
#include "data/tasks/pairs.h"

namespace ropewalk {
namespace {

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
  /// With a mask probability the objective is masked_token, else next_token.
  explicit CorpusDataset(Corpus corpus, std::optional<double> mask_probability = {}) : corpus_(std::move(corpus)) {
    if (mask_probability) {
      masking_ = {.probability = *mask_probability, .mask_token = static_cast<int32_t>(corpus_.tokenizer.vocab_size)};
    }
    Hash hash;
    hash.add(static_cast<uint64_t>(vocab_size()));
    for (int64_t i = 0; i < corpus_.training_tokens; ++i) hash.add(static_cast<uint64_t>(corpus_.tokens.at(i)));
    if (masking_) hash.add(std::bit_cast<uint64_t>(masking_->probability));
    fingerprint_ = hash.value();
  }

  const Tokenizer& tokenizer() const override { return corpus_.tokenizer; }
  int64_t vocab_size() const override { return corpus_.tokenizer.vocab_size + (masking_ ? 1 : 0); }
  const Corpus* corpus() const override { return &corpus_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const override {
    const auto length = static_cast<int64_t>(tokens.size());
    const TokenView text = corpus_.training();
    check_training_length(text.size, length);
    const int64_t start = CounterRandom(seed, DataStream::train_window, step, index).below(text.size - length);
    text.copy(start, tokens);
    if (masking_) {
      mask_training(*masking_, seed, step, index, tokens, targets);
    } else {
      text.copy(start + 1, targets);
    }
  }

  void fill_held_out(const Window& window, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    if (!masking_) return Dataset::fill_held_out(window, tokens, targets);
    corpus_.held_out().copy(window.start, tokens);
    mask_held_out(*masking_, window.start, tokens, targets);
    std::ranges::fill(targets.first(window.first_scored), kIgnored);
  }

  std::string describe() const override {
    const std::size_t others = corpus_.files.size() - 1;
    return fmt::format(
        "{}{}: {} tokens ({}), vocabulary {}{}, {} for training, {} held out", corpus_.files.front(),
        others > 0 ? fmt::format(" and {} more", others) : "", corpus_.tokens.size(), corpus_.format, vocab_size(),
        masking_ ? fmt::format(" with the mask token, {:g} of the positions masked", masking_->probability) : "",
        corpus_.training_tokens, corpus_.held_out().size);
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
  std::optional<Masking> masking_;
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
        "{}: {}, {} to {} {} in training, {}{}{}, vocabulary {}", task_.kind->name, task_.kind->summary,
        task_.min_length, task_.max_length, task_.kind->length_unit,
        task_.train_problems == 0 ? "every problem fresh" : fmt::format("{} problems", task_.train_problems),
        task_.least_significant_first ? ", least significant digit first" : "",
        task_.gap > 0 ? fmt::format(", a gap of {} before the queries", task_.gap) : "", vocab_size());
  }

  uint64_t fingerprint() const override {
    Hash hash;
    for (const char c : task_.kind->name) hash.add(static_cast<uint8_t>(c));
    for (const int64_t value : {task_.alphabet, task_.min_length, task_.max_length, task_.train_problems}) {
      hash.add(static_cast<uint64_t>(value));
    }
    hash.add(task_.least_significant_first ? 1 : 0);
    if (task_.gap > 0) hash.add(static_cast<uint64_t>(task_.gap));  // earlier versions had none
    return hash.value();
  }

 private:
  Task task_;
  Tokenizer tokenizer_;
};

void check_problems_fit(const Task& task, int64_t context_length, Objective objective) {
  const auto check = [&](const char* part, int64_t needed) {
    if (needed <= context_length) return;
    throw DataError(
        fmt::format("{}: {}data.max_length = {} {} takes {} tokens, train.context_length has {}; raise the "
                    "context or lower the length",
                    task.kind->name, part, task.max_length, task.kind->length_unit, needed, context_length));
  };
  if (objective != Objective::source_to_target) return check("", problem_tokens(task, task.max_length));
  const PairSizes sizes = pair_tokens(task, task.max_length);
  check("the source of ", sizes.source);
  check("the target of ", sizes.target);
}

std::unique_ptr<Dataset> open_masked(const DataConfig& config, int64_t context_length, int64_t vocab_size,
                                     const Tokenizer* known) {
  if (!(config.mask_probability > 0 && config.mask_probability <= 1)) {
    throw DataError(fmt::format("data.mask_probability = {}: must be above 0 and at most 1", config.mask_probability));
  }
  if (vocab_size == 1) {
    throw DataError("model.vocab_size = 1: the mask token is one id of the vocabulary, and no other is left");
  }
  Corpus corpus = load_corpus(config, vocab_size == 0 ? 0 : vocab_size - 1, known);
  CorpusDataset::check_training_length(corpus.training_tokens, context_length);
  return std::make_unique<CorpusDataset>(std::move(corpus), config.mask_probability);
}

}  // namespace

void Dataset::fill_held_out(const Window& window, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  if (corpus() == nullptr) throw std::logic_error("fill_held_out: a generated task has no held-out text");
  fill_window(corpus()->held_out(), window, tokens, targets);
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& config, int64_t context_length, int64_t vocab_size,
                                      const Tokenizer* known, Objective objective) {
  if (context_length < 1) {
    throw DataError(fmt::format("train.context_length = {}: must be at least 1", context_length));
  }
  if (config.source == "task") {
    if (objective == Objective::masked_token) {
      throw DataError(
          "data.source = task: a problem asks for an answer after a prompt, which masked-token prediction does not "
          "give; take text or tokens, or model.arch = decoder or encoder_decoder");
    }
    const Task task = make_task(config);
    check_problems_fit(task, context_length, objective);
    return std::make_unique<TaskDataset>(task);
  }
  if (config.source != "text" && config.source != "tokens") {
    throw DataError(fmt::format("data.source = {}: must be text, tokens or task", config.source));
  }
  if (objective == Objective::source_to_target) {
    throw DataError(
        fmt::format("data.source = {}: a corpus has no pairs of source and target; take data.source = task, "
                    "or model.arch = decoder or encoder",
                    config.source));
  }
  if (objective == Objective::masked_token) return open_masked(config, context_length, vocab_size, known);
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

void fill_training_pairs(const Task& task, uint64_t seed, int64_t step, int64_t first_index, PairBatch& batch) {
  for (int64_t i = 0; i < batch.sequences; ++i) {
    batch.source_lengths[i] = fill_training_pair(task, seed, step, first_index + i, batch.row(i));
  }
}

void fill_evaluation_pairs(const Task& task, int64_t length, int64_t first_index, PairBatch& batch) {
  for (int64_t i = 0; i < batch.sequences; ++i) {
    batch.source_lengths[i] = fill_evaluation_pair(task, kEvaluationSeed, length, first_index + i, batch.row(i));
  }
}

}  // namespace ropewalk
