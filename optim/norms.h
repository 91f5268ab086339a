#pragma once

#include <span>

#include "framework/parameter.h"
#include "framework/tensor.h"

namespace ropewalk {

/// Squared L2 norm of a tensor, summed in double. Throws for tensors on another device.
double squared_norm(const Tensor& x);

/// Squared L2 norm of each parameter's part of a flat buffer (gradients, values, moments) of the set's layout, summed
/// in double: out[i] belongs to parameter i. NaN and infinity show in the parameter that holds them. Throws unless
/// `flat` has the set's size and `out` one element a parameter.
void squared_norms(const ParameterSet& parameters, const Tensor& flat, std::span<double> out);

/// Root of the sum, in the order given.
double global_norm(std::span<const double> squared);

/// What the gradients are multiplied by so that their global norm is at most `max_norm`: min(1, max_norm / norm), with
/// no epsilon; 1 where max_norm is 0 (no clipping) (Pascanu et al. 2013). A NaN norm gives 1: it is no measure to scale
/// by.
double clip_factor(double norm, double max_norm);

}  // namespace ropewalk
