#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bucketed_rows.h"

namespace ropewalk {

/// The quantities of the log's group `layers`, in the order of LogDigest::layers.
inline constexpr std::array<const char*, 3> kLayerQuantities = {"grad_norm", "update_ratio", "param_norm"};

/// A run's log, reduced to what a page can draw: its size does not depend on how long the run was.
struct LogDigest {
  int64_t n_layers = 0, n_heads = 0;
  std::vector<std::string> kinds;  ///< of `layers`
  std::vector<int64_t> positions;  ///< first positions of the buckets of loss_by_position
  std::vector<int64_t> eval_lengths;

  /// Columns of `train` and their order in it; tokens are those seen up to a bucket's last row.
  enum Train : std::size_t { loss, lr, grad_norm, tokens, kTrainColumns };
  BucketedRows train;
  std::array<BucketedRows, 3> layers;  ///< [layer, kind], by kLayerQuantities
  BucketedRows log_ratio;              ///< [kind]: log of the last layer's gradient norm over the first's
  BucketedRows residual_grad_norm;     ///< [depth]
  BucketedRows entropy, max_logit;     ///< [layer, head]
  BucketedRows mean_entropy;           ///< [1]: mean over layers and heads
  BucketedRows greatest_logit;         ///< [1]: greatest over layers and heads

  int64_t eval_step = -1;               ///< of the last evaluation; -1: none
  std::vector<float> loss_by_position;  ///< [length, position], of the last evaluation
  std::vector<std::string> damage;      ///< what of the log cannot be read, a sentence each
};

/// How many buckets a digest may have.
struct DigestBudget {
  std::size_t train_buckets = 1000;
  std::size_t layer_values = 65'536;  ///< buckets times layers times kinds
  std::size_t depth_values = 8'192;   ///< buckets times depths
  std::size_t head_values = 16'384;   ///< buckets times layers times heads
};

/// Steps between rows as the configuration has it, for logs with too few rows to tell. 0: not known.
struct LogCadence {
  int64_t train = 0, layers = 0, attention = 0;
};

/// A budget under which the digests of so many runs fit into a page of 2 MB, and that of one run into 3 MB.
DigestBudget digest_budget(std::size_t runs);

/// Reads a log of any size in little memory. Columns that cannot be read are missing, and named in `damage`.
/// Throws LogError if nothing can be read.
LogDigest digest_log(const std::string& path, const DigestBudget& budget, const LogCadence& cadence = {});

/// Widens the buckets of runs that are to be compared bucket by bucket to those of the longest.
void align(const std::vector<LogDigest*>& digests);

}  // namespace ropewalk
