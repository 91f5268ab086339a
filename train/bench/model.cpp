#include "train/bench/model.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "data/random.h"
#include "framework/error.h"
#include "framework/ops/cross_entropy.h"
#include "framework/random.h"
#include "train/config_error.h"
#include "train/evaluation.h"
#include "train/every_worker.h"
#include "train/flops.h"
#include "train/memory.h"
#include "train/text.h"

namespace ropewalk {
namespace {

constexpr BenchSize kSizes[] = {{"XS", 32, 2, 2, 32, 8, 65},
                                {"S", 64, 4, 4, 64, 32, 65},
                                {"M", 128, 6, 4, 128, 32, 256},
                                {"L", 384, 6, 6, 256, 16, 256}};

/// Uniformly random tokens: nothing to learn, nothing to read.
class NoiseData : public Dataset {
 public:
  explicit NoiseData(int64_t vocab_size) : tokenizer_(id_tokenizer(vocab_size)) {}

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  void fill_training(uint64_t seed, int64_t step, int64_t index, std::span<int32_t> tokens,
                     std::span<int32_t> targets) const override {
    const RandomKey key{seed, Stream::probe_inputs, static_cast<uint32_t>(step), static_cast<uint32_t>(index)};
    int32_t next = draw(key, 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = next;
      next = draw(key, i + 1);
      targets[i] = next;
    }
  }
  std::string describe() const override { return "random tokens"; }
  uint64_t fingerprint() const override { return 0; }

 private:
  int32_t draw(const RandomKey& key, std::size_t i) const {
    return static_cast<int32_t>(random_uniform(key, i) * static_cast<double>(tokenizer_.vocab_size));
  }
  Tokenizer tokenizer_;
};

/// Does a size on random tokens pass over this `key=value` word?
bool is_unread(const std::string& word) {
  const std::string_view key = trimmed(std::string_view(word).substr(0, word.find('=')));
  return key.starts_with("data.") || key.starts_with("probe.");
}

RunSetup set_up_with_noise(const Config& config) {
  if (config.model.arch == Arch::encoder_decoder) {
    throw ConfigError(
        {"bench: model.arch = encoder_decoder needs pairs of source and target, and the sizes have random "
         "tokens; give an experiment file with data.source = task"});
  }
  RunSetup out{.config = config};
  const ArchitectureConfig architecture = architecture_of(config);
  require_memory(
      estimate_memory(config, count_parameters(architecture), config.model.vocab_size, training_shape(config)));
  out.dataset = std::make_unique<NoiseData>(config.model.vocab_size);
  out.workers = std::make_unique<Workers>(config.train.threads);
  out.model = std::make_unique<Transformer>(architecture, dtype_of(config.train));
  out.model->allocate();
  return out;
}

}  // namespace

std::span<const BenchSize> bench_sizes() {
  return kSizes;
}

BenchSubject bench_size(const std::string& name, const std::vector<std::string>& overrides) {
  for (const BenchSize& s : kSizes) {
    if (name != s.name) continue;
    std::vector<std::string> keys = {fmt::format("model.d_model={}", s.d_model),
                                     fmt::format("model.n_layers={}", s.n_layers),
                                     fmt::format("model.n_heads={}", s.n_heads),
                                     fmt::format("model.vocab_size={}", s.vocab),
                                     fmt::format("train.context_length={}", s.context),
                                     fmt::format("train.batch_size={}", s.batch),
                                     "position.encoding=learned",
                                     "model.tie_embeddings=false",
                                     "probe.inputs=normal",
                                     "eval.lengths=1"};  // never evaluated, and within any table of positions
    std::vector<std::string> errors;
    for (const std::string& word : overrides) {
      if (!is_unread(word)) {
        keys.push_back(word);
        continue;
      }
      errors.push_back(
          error_at({Origin::Kind::command_line},
                   fmt::format("{}: size {} is measured on random tokens, so that [data] and [probe] are not read; to "
                               "measure on data, give an experiment file",
                               printable(word), name)));
    }
    try {
      ResolvedConfig resolved = load_config("", keys, Purpose::probe);
      if (errors.empty()) {
        return {.name = name,
                .config = std::move(resolved.config),
                .random_tokens = true,
                .warnings = std::move(resolved.warnings)};
      }
    } catch (const ConfigError& error) {
      errors.insert(errors.end(), error.messages().begin(), error.messages().end());
    }
    throw ConfigError(std::move(errors));
  }
  std::vector<std::string> names;
  for (const BenchSize& s : kSizes) names.emplace_back(s.name);
  throw ConfigError(
      {fmt::format("bench: '{}' is neither a size ({}) nor an experiment file", printable(name), joined(names))});
}

RunSetup set_up_subject(const BenchSubject& subject) {
  return subject.random_tokens ? set_up_with_noise(subject.config) : set_up(subject.config);
}

struct BenchModel::Worker {
  Workspace workspace;
  std::vector<float> losses;
  double loss = 0;
};

BenchModel::BenchModel(const BenchSubject& subject, BenchPass pass)
    : setup_(set_up_subject(subject)), pass_(pass), shape_(training_shape(setup_.config)) {
  setup_.model->initialize(static_cast<uint64_t>(config().train.seed));
  if (pass == BenchPass::train) {
    trainer_ = std::make_unique<Trainer>(setup_.config, *setup_.model, *setup_.dataset, *setup_.workers);
    trainer_->warm_up({});
    return;
  }
  batch_.resize(config().train.batch_size * config().train.accumulate, shape_);
  batch_.fill_training(*setup_.dataset, static_cast<uint64_t>(config().train.seed), 1);
  for (int64_t i = 0; i < workers().count(); ++i) worker_state_.push_back(std::make_unique<Worker>());
  warm_up();
}

BenchModel::~BenchModel() = default;

int64_t BenchModel::tokens() const {
  const TrainConfig& train = config().train;
  return train.batch_size * train.accumulate * shape_.positions();
}

double BenchModel::flops_per_token() const {
  const FlopCount count = count_flops(config(), shape_);
  return pass_ == BenchPass::train ? count.training() : count.forward;
}

std::size_t BenchModel::arena_bytes() const {
  if (trainer_ != nullptr) return trainer_->arena_bytes();
  std::size_t total = 0;
  for (const auto& worker : worker_state_) total += worker->workspace.arena.held_bytes();
  return total;
}

double BenchModel::run(const StepRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  if (pass_ == BenchPass::train) {
    require(!trainer_->step(++step_, request).divergence, "bench: the training step is not finite");
  } else {
    forward(request.clock);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t BenchModel::at_once() const {
  return evaluated_at_once(shape_.positions());
}

int64_t BenchModel::sequences() const {
  return config().train.batch_size * config().train.accumulate;
}

int64_t BenchModel::parts() const {
  return (sequences() + at_once() - 1) / at_once();
}

void BenchModel::carry(Worker& worker, int64_t index, OpClock* clock) {
  const Transformer& model = *setup_.model;
  const int64_t first = index * at_once();
  const BatchPart part = batch_.part(first, std::min(at_once(), sequences() - first));
  Tape tape(worker.workspace, Mode::inference, &model.parameters());
  tape.time_ops(clock);
  ForwardPass pass{.tape = tape, .sequences = part.sequences, .length = part.length};
  part.encode(model, pass);
  const Var logits = model.logits(pass, part.tokens);
  worker.losses.resize(static_cast<std::size_t>(part.sequences * part.length));
  token_losses(logits.value(), part.targets, worker.losses.data());
  for (const float loss : worker.losses) worker.loss += static_cast<double>(loss);
  if (clock != nullptr) clock->lap("token_losses", OpClock::Pass::forward);
}

void BenchModel::warm_up() {
  prepare(*setup_.model, shape_);
  // The first part is the longest; an arena that has grown in it is new memory in the next.
  for (const int64_t part : {int64_t{0}, int64_t{0}, parts() - 1}) {
    on_every_worker(workers(), [&](int64_t w) { carry(*worker_state_[static_cast<std::size_t>(w)], part, nullptr); });
  }
}

void BenchModel::forward(OpClock* clock) {
  if (clock != nullptr) {
    require(workers().count() == 1, "a pass whose ops are timed runs on one thread, not on {}", workers().count());
    clock->start();
  }
  prepare(*setup_.model, shape_);
  for (const auto& worker : worker_state_) worker->loss = 0;
  const auto task = [&](int64_t w, int64_t part) { carry(*worker_state_[static_cast<std::size_t>(w)], part, clock); };
  workers().run(parts(), task);
  double loss = 0;
  for (const auto& worker : worker_state_) loss += worker->loss;
  require(std::isfinite(loss), "bench: the loss is not finite");
}

void require_memory_for(std::span<const BenchSubject> subjects) {
  MemoryEstimate all;
  for (const BenchSubject& subject : subjects) {
    const Config& config = subject.config;
    const MemoryEstimate one = estimate_memory(config, count_parameters(architecture_of(config)),
                                               config.model.vocab_size, training_shape(config));
    all.parameters += one.parameters;
    all.activations += one.activations;
    all.batch += one.batch;
    all.evaluation += one.evaluation;
  }
  require_memory(all);
}

}  // namespace ropewalk
