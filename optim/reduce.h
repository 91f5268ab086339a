#pragma once

#include "framework/tensor.h"

namespace ropewalk {

/// total += lane, element by element. Adding the lanes of a step in a fixed order gives the same bits whichever threads
/// filled them. The two do not overlap. Throws unless size, dtype and device agree.
void add_into(const Tensor& total, const Tensor& lane);

}  // namespace ropewalk
