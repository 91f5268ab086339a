#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/config.h"
#include "layers/config.h"
#include "optim/config.h"

namespace ropewalk {

inline constexpr NameTable<Schedule, 4> kScheduleNames{{{Schedule::constant, "constant"},
                                                        {Schedule::cosine, "cosine"},
                                                        {Schedule::linear, "linear"},
                                                        {Schedule::inverse_sqrt, "inverse_sqrt"}}};

enum class OnDivergence : uint8_t { stop, proceed };
inline constexpr NameTable<OnDivergence, 2> kOnDivergenceNames{
    {{OnDivergence::stop, "stop"}, {OnDivergence::proceed, "continue"}}};

/// How held-out text is cut into windows (see EvalConfig::protocol).
enum class Protocol : uint8_t { same_tokens, non_overlapping, sliding };
inline constexpr NameTable<Protocol, 3> kProtocolNames{{{Protocol::same_tokens, "same_tokens"},
                                                        {Protocol::non_overlapping, "non_overlapping"},
                                                        {Protocol::sliding, "sliding"}}};

/// [train]
struct TrainConfig {
  int64_t steps = 1000;
  std::string from;         ///< run (its directory) or weights file whose parameters it begins with; "": drawn ones
  int64_t batch_size = 32;  ///< sequences a micro-batch of the accumulation
  int64_t context_length = 128;
  int64_t accumulate = 1;   ///< batches a step
  int64_t micro_batch = 0;  ///< sequences a tape; 0: chosen by the program
  int64_t seed = 1;
  int64_t threads = 1;
  std::string device = "cpu";  ///< cpu | cuda
  std::string dtype = "f32";   ///< f32 | f64 | bf16
  OnDivergence on_divergence = OnDivergence::stop;
  int64_t checkpoint_every = 200;
  int64_t keep_checkpoints = 2;
};

/// [eval]
struct EvalConfig {
  int64_t every = 200;
  std::vector<int64_t> lengths;  ///< empty: 1, 1.5, 2, 4 and 8 times the context
  int64_t tokens = 16384;        ///< scored tokens a length (at most; the held-out text may give fewer)
  Protocol protocol = Protocol::same_tokens;
  int64_t tail = 0;    ///< same_tokens: scored tokens at the end of a window; 0: half the shortest length
  int64_t stride = 0;  ///< sliding: 0: half of each length
};

/// [log]
struct LogConfig {
  int64_t every = 1;
  int64_t layers_every = 10;
  int64_t attention_every = 50;
};

/// [probe]: gradient norms at initialization, without training.
struct ProbeConfig {
  std::vector<int64_t> seeds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  std::string inputs = "data";  ///< data | normal: N(0, 1) vectors in place of the embeddings, random labels
};

/// One run, resolved: every configuration key at its value.
struct Config {
  ModelConfig model;
  PositionConfig position = {};
  AttentionConfig attention;
  DataConfig data;
  TrainConfig train;
  OptimConfig optim;
  EvalConfig eval;
  LogConfig log;
  ProbeConfig probe;
};

/// Are its data generated problems?
inline bool is_task(const Config& config) {
  return config.data.source == "task";
}

/// The length that evaluations count in: the longest that a run is trained at, in the unit of eval.lengths: tokens of a
/// window of text, or the length of a problem. For a run that goes on from another's parameters it is that of the first
/// training, whatever its own windows are, so that multiples tell how far positions were extended.
inline int64_t trained_length(const Config& config) {
  if (is_task(config)) return config.data.max_length;
  return config.train.from.empty() ? config.train.context_length : config.position.max_length;
}

/// What the results of an evaluation are called by: the protocol of windows of text; for generated problems "task", or
/// "pairs" where they are given as source and target and the exact match is that of greedy decoding.
inline std::string protocol_name(const Config& config) {
  if (!is_task(config)) return std::string(name_in(kProtocolNames, config.eval.protocol));
  return config.model.arch == Arch::encoder_decoder ? "pairs" : "task";
}

/// The part of a configuration that fixes the model.
inline ArchitectureConfig architecture_of(const Config& config) {
  return {.model = config.model, .position = config.position, .attention = config.attention};
}

}  // namespace ropewalk
