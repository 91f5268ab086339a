#pragma once

#include <cstdint>

#include "framework/tape.h"

namespace ropewalk {

// What FIRE (Li et al. 2024) makes of offsets and positions for the DistanceBias of attention: the bias of a pair is
// f_h(psi(|i - j|) / psi(max(i, L))) with psi(x) = ln(1 + c x) and f an MLP of one input, learned like c and L.

/// psi(|o|) of the offsets o = first_offset, first_offset + 1, ... -> [n], for c [1], positive.
/// Backward: dc += sum_o dy |o| / (1 + c |o|).
Var log_distance(Var c, int64_t first_offset, int64_t n);

/// 1 / psi(max(i, L)) of the positions i = 0, 1, ... -> [n], for c [1] and L = length multiplier [1], both positive.
/// Backward, with x = max(i, L) and y the result:
///   dc -= sum_i dy y^2 x / (1 + c x),      dmultiplier -= sum over i < L of dy y^2 c length / (1 + c L)
Var log_normalizer(Var c, Var multiplier, double length, int64_t n);

/// f_h(x) = sum_k output_hk relu(hidden_k x + hidden_bias_k) + output_bias_h as the lines that it consists of, for
/// hidden and hidden_bias [W] (or [W, 1]), output [H, W] and output_bias [H] -> [2 H + 1, W + 1]:
///   row 0          the knots -hidden_bias_k / hidden_k, ascending, from one line to the next; its last column is idle
///   row 1 + h      the slopes of f_h
///   row 1 + H + h  where its lines meet x = 0
/// Backward: a line passes its gradient to the units that are active on it; knots pass none, for f is continuous.
Var relu_lines(Var hidden, Var hidden_bias, Var output, Var output_bias);

}  // namespace ropewalk
