#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/safetensors.h"

namespace ropewalk {

/// A checkpoint that was read and found whole.
struct Checkpoint {
  int64_t step = 0;
  SafetensorsFile file;
};

struct LatestCheckpoint {
  std::optional<Checkpoint> checkpoint;  ///< empty if there is no whole one
  std::vector<std::string> warnings;     ///< a line for each newer file that was passed over
};

/// DIRECTORY/step-000000001234.safetensors
std::string checkpoint_path(const std::string& directory, int64_t step);

/// Writes the checkpoint of `step` (directory made if need be), whole or not at all, then removes all but the newest
/// `keep` (at least 1). `step` and the format are added to the metadata.
/// @throws CheckpointError; older checkpoints are then still there.
void write_checkpoint(const std::string& directory, int64_t step, const std::vector<TensorToSave>& tensors,
                      const std::map<std::string, std::string>& metadata, int64_t keep);

/// Reads a checkpoint and checks all of it. @throws CheckpointError also if it was changed or was not written here.
Checkpoint read_checkpoint(const std::string& path);

/// The newest checkpoint in `directory` that is whole.
LatestCheckpoint latest_checkpoint(const std::string& directory);

}  // namespace ropewalk
