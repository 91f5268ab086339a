#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "layers/positions/scheme.h"

namespace ropewalk {

/// `count` different positions out of [0, limit), ascending, each set as likely as any other: a pure function of the
/// training step, or of count and limit alone where there is none.
std::vector<int32_t> sample_positions(int64_t count, int64_t limit, const std::optional<TrainingStep>& training);

/// `scheme` with the tokens of every pass at sample_positions(.., limit) (Ruoss et al. 2023), so that training reaches
/// all offsets below the limit with short sequences. The sequences of a pass share them. With a cache they are the
/// first of a sample for its capacity.
std::unique_ptr<PositionScheme> with_random_positions(std::unique_ptr<PositionScheme> scheme, int64_t limit);

}  // namespace ropewalk
