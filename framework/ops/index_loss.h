#pragma once

#include "framework/ops/attention.h"
#include "framework/ops/selected_keys.h"

namespace ropewalk {

/// The attention whose probabilities an indexer learns to foretell. Nothing of it gets a gradient from the loss.
struct IndexTeacher {
  Heads q, k;
  AttentionOptions options = {};  ///< as the attention has them; the statistics are not written to
};

/// Training loss of the lightning indexer (DeepSeek-V3.2-Exp, equation 3) over all visible keys, as in the dense
/// warm-up:
///   loss = sum over queries of KL(p || softmax(I)) / normalizer,   p = sum over heads of the teacher's probabilities,
/// divided by its sum; I are the index_scores of q [B, T, heads * d], k [B, S, d], w [B, T, heads]. A scalar (shape
/// []). Sequences of unequal length are those of the teacher's options. A query that sees no key counts for nothing.
/// The normalizer is the number of queries of the whole step where a step is cut into parts; it must be positive. Works
/// by blocks of queries, memory O(T + S).
///
/// Backward, with p constant: dI = dloss (softmax(I) - p) / normalizer, and from there as in index_scores; to q, k and
/// w alone. The gradients are made in the forward pass, where p and I are at hand, and kept.
Var index_loss(Var q, Var k, Var w, const IndexTeacher& teacher, double normalizer);

/// The same over the selected keys of each query, as in sparse training: both distributions are over those alone. Work
/// O(T width).
Var index_loss(Var q, Var k, Var w, const IndexTeacher& teacher, const SelectedKeys& selected, double normalizer);

}  // namespace ropewalk
