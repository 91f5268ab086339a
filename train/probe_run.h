#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config_resolve.h"

namespace ropewalk {

/// Gradient norms of one configuration at initialization.
struct ProbeResult {
  std::string name;       ///< of the variant
  std::string directory;  ///< its log
  std::vector<int64_t> seeds;
  std::vector<double> ratio;        ///< one a seed: gradient norm of the last block's ffn.up weight over the first's
  std::vector<double> first, last;  ///< the two norms
  std::vector<double> loss;
};

/// Runs forward and backward once a seed, without an update, and logs the norms to DIRECTORY/log.h5 (made anew), one
/// entry and one row a seed; the row's step is the seed.
///
/// probe.inputs = normal (Xiong et al. 2020): N(0, 1) vectors [train.batch_size, train.context_length, d_model] in
/// place of the embedded tokens, and labels uniform over model.vocab_size classes. probe.inputs = data: the first
/// training batch.
ProbeResult probe_run(const ResolvedConfig& config, const std::string& name, const std::string& directory,
                      const std::string& command_line);

/// One line a variant: median and range of the ratio over the seeds.
std::string probe_text(const std::vector<ProbeResult>& results);

}  // namespace ropewalk
