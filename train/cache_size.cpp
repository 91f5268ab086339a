#include "train/cache_size.h"

#include <numeric>

#include <fmt/format.h>

#include "layers/attention.h"

namespace ropewalk {

int64_t cache_numbers(const ArchitectureConfig& config) {
  const std::vector<int64_t> columns = cache_columns(config);
  return std::accumulate(columns.begin(), columns.end(), int64_t{0});
}

double cache_bytes(const ArchitectureConfig& config, int64_t sequences, int64_t tokens, double bytes_a_number) {
  return static_cast<double>(config.model.n_layers) * static_cast<double>(cache_numbers(config)) *
         static_cast<double>(sequences) * static_cast<double>(tokens) * bytes_a_number;
}

double cache_bytes(const ArchitectureConfig& config, int64_t sequences, int64_t tokens, DType dtype) {
  return cache_bytes(config, sequences, tokens, static_cast<double>(size_of(dtype)));
}

std::vector<CacheVariant> cache_variants(const ArchitectureConfig& config) {
  const ModelConfig& m = config.model;
  std::vector<CacheVariant> out;
  for (int64_t heads = m.n_heads; heads >= 1; --heads) {
    if (m.n_heads % heads != 0) continue;
    ArchitectureConfig shared = config;
    shared.attention.kind = AttentionKind::mha;
    shared.model.n_kv_heads = heads;
    const char* kind = heads == m.n_heads ? "mha" : heads == 1 ? "mqa" : "gqa";
    const bool configured = config.attention.kind == AttentionKind::mha && heads == m.n_kv_heads;
    out.push_back(
        {fmt::format("{}, {} head{}", kind, heads, heads == 1 ? "" : "s"), cache_numbers(shared), configured});
  }
  ArchitectureConfig latent = config;
  latent.attention.kind = AttentionKind::mla;
  const bool configured = config.attention.kind == AttentionKind::mla;
  if (!configured) {
    latent.attention.mla_kv_rank = 4 * m.d_head;
    latent.attention.mla_rope_dims = m.d_head / 2;
  }
  const std::string name = fmt::format("mla, {} + {}", latent.attention.mla_kv_rank, latent.attention.mla_rope_dims);
  out.push_back({name, cache_numbers(latent), configured});
  return out;
}

}  // namespace ropewalk
