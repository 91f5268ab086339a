#include "train/sequence_shape.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/tasks/pairs.h"

namespace ropewalk {
namespace {

SequenceShape pair_shape(const Config& config, int64_t length) {
  const PairSizes sizes = pair_tokens(make_task(config.data), length);
  return {.source = sizes.source, .length = sizes.target};
}

}  // namespace

SequenceShape training_shape(const Config& config) {
  if (config.model.arch == Arch::encoder_decoder) return pair_shape(config, config.data.max_length);
  return {.length = config.train.context_length};
}

SequenceShape evaluation_shape(const Config& config, int64_t length) {
  if (config.model.arch == Arch::encoder_decoder) return pair_shape(config, length);
  return {.length = is_task(config) ? problem_tokens(make_task(config.data), length) : length};
}

SequenceShape longest_evaluation_shape(const Config& config) {
  return evaluation_shape(config, *std::max_element(config.eval.lengths.begin(), config.eval.lengths.end()));
}

std::string shape_text(const SequenceShape& shape) {
  if (shape.source == 0) return fmt::format("{} positions", shape.length);
  return fmt::format("{} source and {} target positions", shape.source, shape.length);
}

}  // namespace ropewalk
