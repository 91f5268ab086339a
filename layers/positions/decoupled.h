#pragma once

#include <memory>

#include "layers/positions/scheme.h"

namespace ropewalk {

/// A scheme together with the rotation of another: latent attention turns a stream of its own (attention.mla_rope_dims)
/// whatever else tells the model where its tokens stand.
std::unique_ptr<PositionScheme> with_rotation_of(std::unique_ptr<PositionScheme> scheme,
                                                 std::unique_ptr<PositionScheme> rotation);

}  // namespace ropewalk
