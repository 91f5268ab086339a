#pragma once

#include "framework/tape.h"

namespace ropewalk {

/// RMSNorm of every query and key head on its own, for packed projections qkv [B, T, (n_heads + 2 n_kv_heads) d_head]
/// (qk_norm; Dehghani et al. 2023). The values pass through unchanged.
///   q <- q / sqrt(mean(q^2) + eps) * query_weight,   k alike with key_weight;   weights [d_head], shared by the heads
Var head_norm(Var qkv, Var query_weight, Var key_weight, int64_t n_heads, int64_t n_kv_heads, double eps);

}  // namespace ropewalk
