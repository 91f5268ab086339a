#pragma once

#include "framework/ops/index_precision.h"
#include "framework/ops/selected_keys.h"
#include "framework/tape.h"

namespace ropewalk {

/// For each query the `top_k` visible keys of greatest index score (index_scores; DeepSeek-V3.2-Exp, equation 2), of
/// equal scores those at the lower positions; all visible keys where there are fewer. -0 equals +0; a NaN is less than
/// all else, so that a hidden key is never chosen. q [B, T, heads * d], k [B, S, d], w [B, T, heads]; query t of T
/// stands at position S - T + t. Of sequences of unequal length, positions count from the first key of each, and
/// queries before that select nothing. Makes the scores by blocks of queries, and only near keys that some of them see:
/// memory O(S + T top_k). Records nothing and passes no gradient; an indexer learns by index_loss.
///
/// In int8, every row x of q and k becomes integers n = round(x / s), ties to even, with s = max |x| / 127 rounded to
/// the number format of x, and
///   score_tj = s_j sum over heads h of (w_th s_th) relu(sum over columns c of n_thc n_jc)
/// of which the inner sum is an exact integer and the rest is f32. A row without a normal s counts as zeros, one with a
/// NaN or an infinity as NaN. d is at most kMostInt8Columns.
SelectedKeys select_top_k(Var q, Var k, Var w, int64_t top_k, const AttentionMask& mask,
                          IndexPrecision precision = IndexPrecision::f32, const SequenceKeys& sequences = {});

/// The same from scores [B, T, S] that are in memory.
SelectedKeys select_top_k(Var scores, int64_t top_k, const AttentionMask& mask);

}  // namespace ropewalk
