#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor.h"
#include "layers/config.h"

namespace ropewalk {

/// Numbers that one layer keeps of a token while it decodes; sizes are filled in.
///   multi-head attention and its variants: 2 n_kv_heads d_head (keys and values)
///   latent attention: mla_kv_rank + mla_rope_dims (the latent and the rotated key that the heads share)
int64_t cache_numbers(const ArchitectureConfig& config);

/// Bytes of the cache of all layers for so many sequences of so many tokens: numbers of that dtype, or of
/// `bytes_a_number`. A double, so that absurd sizes do not overflow.
double cache_bytes(const ArchitectureConfig& config, int64_t sequences, int64_t tokens, double bytes_a_number);
double cache_bytes(const ArchitectureConfig& config, int64_t sequences, int64_t tokens, DType dtype);

/// What keys and values would take if the heads of a model shared them otherwise.
struct CacheVariant {
  std::string name;  ///< "gqa, 2 heads", of keys and values; "mla, 128 + 16"
  int64_t numbers = 0;
  bool configured = false;
};

/// MHA, GQA with every number of key/value heads that divides n_heads, MQA, and MLA: at the configured ranks, or, where
/// the model has none, at the proportions of DeepSeek-V2 (a latent of 4 d_head, d_head / 2 rotated dimensions).
std::vector<CacheVariant> cache_variants(const ArchitectureConfig& config);

}  // namespace ropewalk
