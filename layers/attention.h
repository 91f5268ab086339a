#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "layers/latent_attention.h"
#include "layers/multi_head_attention.h"
#include "layers/positions/options.h"

namespace ropewalk {

/// The attention of a layer, of the kind that attention.kind names.
using Attention = std::variant<MultiHeadAttention, LatentAttention>;

/// Declares its parameters under `prefix`.
Attention declare_attention(const Declarations& declarations, const std::string& prefix,
                            const ArchitectureConfig& config, PositionScheme& scheme);

/// Columns of each table that a layer keeps in a cache (see KeyValueCache), of sizes that are filled in. MHA, GQA and
/// MQA keep keys and values, n_kv_heads d_head numbers each; MLA mla_kv_rank + mla_rope_dims. The key of an indexer is
/// one more table, of index_dim columns.
std::vector<int64_t> cache_columns(const ArchitectureConfig& config);

/// Elements of the weight matrices of one layer's attention, those of its position scheme left out.
double attention_weights(const ArchitectureConfig& config);

/// What a kind of attention finds wrong with the rest of a configuration whose derived sizes are filled in.
PositionFindings check_attention(const ArchitectureConfig& config);

}  // namespace ropewalk
