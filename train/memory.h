#pragma once

#include <cstdint>
#include <string>

#include "train/config.h"
#include "train/sequence_shape.h"

namespace ropewalk {

/// Bytes a run will want, part by part. Doubles, so that absurd sizes do not overflow.
struct MemoryEstimate {
  double parameters = 0;   ///< values, gradients of the step and of each worker, two moments
  double activations = 0;  ///< of all workers, gradients included
  double batch = 0;        ///< tokens and targets of a step
  double evaluation = 0;   ///< longest evaluated length
  double total() const { return parameters + batch + (activations > evaluation ? activations : evaluation); }
};

/// For a model of `parameters` elements over `vocab_size` tokens; `longest` is the longest sequence evaluated.
MemoryEstimate estimate_memory(const Config& config, double parameters, int64_t vocab_size,
                               const SequenceShape& longest);

/// For gradient norms at initialization, where the whole batch goes through one tape.
MemoryEstimate estimate_probe_memory(const Config& config, double parameters, int64_t vocab_size);

/// Throws Error with the bytes wanted and those the machine has, before anything is allocated.
void require_memory(const MemoryEstimate& estimate);

/// Learned numbers of a model, from its sizes alone: all but biases and norms, which are few.
double count_parameters(const ArchitectureConfig& config);

/// Bytes of memory that the machine has.
double machine_bytes();

/// "1.2 GiB"
std::string bytes_text(double bytes);

}  // namespace ropewalk
