#pragma once

#include "framework/ops/attention.h"
#include "framework/ops/selected_keys.h"

namespace ropewalk {

/// Scaled dot-product attention of each query over the keys that are selected for it, as `attention` with all others
/// hidden. Work O(T width (dk + dv)), memory O(T + S); a key that no query selects is never read.
///
/// q of H heads, k and v of G -> [B, T, H dv], sequences of unequal length and options as in `attention`; all heads of
/// a query share its selection. The mask is not applied but checked: a selected key that it hides is an Error, as are
/// positions that do not ascend.
///
///   s_j = scale (q . (k_j + a_j)) + bias_j,   p_j = softmax over selected j,   y = sum_j p_j v_j
///
/// Backward, with p computed again from the kept log-sum-exp:
///   dv_j += p_j dy      ds_j = p_j (dy . v_j - dy . y)      dq += scale sum_j ds_j (k_j + a_j)
///   dk_j += scale ds_j q      da, dbias += the same, summed over equal offsets
/// No gradient passes to the selection. Its memory must outlive the tape or belong to its arena.
Var selected_attention(const Heads& q, const Heads& k, const Heads& v, const SelectedKeys& selected,
                       const AttentionOptions& options);

}  // namespace ropewalk
