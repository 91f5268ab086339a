#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/read_log.h"

namespace ropewalk {

/// Where gradients first grew out of all measure.
struct BlowUp {
  int64_t step = 0;    ///< the first with a global gradient norm of kTimes its median, or none
  double times = 0;    ///< the norm over its median; infinite where it was not a number
  std::string module;  ///< "blocks.3.ffn.down": the first to grow so; "" where no layers were logged near
  int64_t module_step = 0;
  double module_times = 0;

  /// How far above the median of the rows before a norm is no longer noise. Global norms of healthy runs stay within 3.
  static constexpr double kTimes = 10;
};

/// Gradient norms of all modules, [row, layer, kind], in `count` rows of /layers from `first` on.
using LayerNorms = std::function<std::vector<float>(std::size_t first, std::size_t count)>;

/// The first step whose global gradient norm is no number, or kTimes the median of the (at most 100, at least 10) rows
/// before, and the module whose gradient norm was the first to grow so in the rows about that step, which alone are
/// asked for. The start of a run, in which norms of single modules grow a hundredfold as they should, is therefore no
/// blow-up. Of the log's /layers only `step` is read.
std::optional<BlowUp> first_blow_up(const LogContents& log, const LayerNorms& norms);

/// "gradients blew up at step 420 (12 times the median before), first in blocks.3.ffn.down (85 times, step 418)"
std::string blow_up_text(const BlowUp& blow_up);

}  // namespace ropewalk
