#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// Scores of the lightning indexer (DeepSeek-V3.2-Exp, equation 1), every one of them: q [B, T, heads * d], k [B, S, d]
/// shared by the heads, w [B, T, heads] -> [B, T, S], S >= T,
///   score_tj = sum over heads h of w_th relu(q_th . k_j)
/// without any scale or mask. For contexts that are short enough to hold T x S numbers; select_top_k and index_loss
/// make the same scores by blocks of queries.
///
/// Backward, with a_thj = q_th . k_j and relu' (0) = 0:
///   dw_th += sum_j dy_tj relu(a_thj)     dq_th += sum_j dy_tj w_th relu'(a_thj) k_j
///   dk_j += sum over t, h of dy_tj w_th relu'(a_thj) q_th
Var index_scores(Var q, Var k, Var w);

}  // namespace ropewalk
