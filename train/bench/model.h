#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/op_clock.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace ropewalk {

/// A model and batch size that measurements are compared at.
struct BenchSize {
  const char* name;
  int64_t d_model, n_layers, n_heads, context, batch, vocab;
};
/// XS, S, M, L: learned positions, untied head, all else at its default.
std::span<const BenchSize> bench_sizes();

/// What is measured.
struct BenchSubject {
  std::string name;
  Config config;
  bool random_tokens = false;                ///< uniformly random tokens; otherwise the data of the configuration
  std::vector<std::string> warnings = {};    ///< about the configuration, as load_config() words them
  std::vector<std::string> overridden = {};  ///< keys that the user gave besides the size or the file
};

/// Is told what a measurement is doing, a line at a time.
using BenchSay = std::function<void(const std::string&)>;

/// The subject of a measurement with these section.key=value overrides besides its own.
using SubjectWith = std::function<BenchSubject(const std::vector<std::string>& overrides)>;

/// A size on random tokens. Throws ConfigError; for an unknown name with the list of the sizes, and for the keys of
/// [data] and [probe], which it does not read.
BenchSubject bench_size(const std::string& name, const std::vector<std::string>& overrides);

/// Model and data of a subject, the model at zero.
RunSetup set_up_subject(const BenchSubject& subject);

/// A training step, or a forward pass in inference mode: logits of the same batch and the loss of every token.
enum class BenchPass : uint8_t { train, forward };

/// A model at its first values with its data, ready for passes that are timed one by one: every worker has carried
/// what a pass may give it, so that its memory is there whichever worker gets which part.
class BenchModel {
 public:
  BenchModel(const BenchSubject& subject, BenchPass pass);
  ~BenchModel();

  /// Does the next pass and returns its seconds. A clock gets laps as StepRequest says (forward: after every op and
  /// "token_losses"), on one thread only. `request` serves training. Throws Error where the loss is not finite.
  double run(const StepRequest& request = {});

  const Config& config() const { return setup_.config; }
  Workers& workers() { return *setup_.workers; }
  int64_t parameters() const { return setup_.model->parameters().elements(); }
  /// Tokens of a pass.
  int64_t tokens() const;
  /// Floating-point operations of the matrix products for one token.
  double flops_per_token() const;
  /// Bytes of activations and scratch memory held by all workers.
  std::size_t arena_bytes() const;

 private:
  struct Worker;
  void warm_up();
  void forward(OpClock* clock);
  /// How many sequences go through a tape together in a forward pass, and how many such parts there are.
  int64_t at_once() const;
  int64_t sequences() const;
  int64_t parts() const;
  void carry(Worker& worker, int64_t part, OpClock* clock);

  RunSetup setup_;
  BenchPass pass_;
  std::unique_ptr<Trainer> trainer_;
  SequenceShape shape_;
  ModelBatch batch_;
  std::vector<std::unique_ptr<Worker>> worker_state_;
  int64_t step_ = 0;
};

/// Throws Error where all of these together want more memory than the machine has.
void require_memory_for(std::span<const BenchSubject> subjects);

}  // namespace ropewalk
