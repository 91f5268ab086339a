#include "layers/attention.h"

#include <fmt/format.h>

namespace ropewalk {

Attention declare_attention(const Declarations& declarations, const std::string& prefix,
                            const ArchitectureConfig& config, PositionScheme& scheme) {
  if (config.attention.kind == AttentionKind::mla) {
    return LatentAttention::declare(declarations, prefix, config, scheme);
  }
  return MultiHeadAttention::declare(declarations, prefix, config, scheme);
}

std::vector<int64_t> cache_columns(const ArchitectureConfig& config) {
  const AttentionConfig& a = config.attention;
  const int64_t heads = config.model.n_kv_heads * config.model.d_head;
  std::vector<int64_t> columns = {heads, heads};
  if (a.kind == AttentionKind::mla) columns = {a.mla_kv_rank + a.mla_rope_dims};
  if (a.pattern == AttentionPattern::top_k) columns.push_back(a.index_dim);
  return columns;
}

double attention_weights(const ArchitectureConfig& config) {
  const ModelConfig& m = config.model;
  const AttentionConfig& a = config.attention;
  const auto d = static_cast<double>(m.d_model);
  const double heads = static_cast<double>(m.n_heads) * static_cast<double>(m.d_head);
  const double indexer = index_weights(config);
  if (a.kind == AttentionKind::mha) {
    return d * (2 * heads + 2 * static_cast<double>(m.n_kv_heads * m.d_head)) + indexer;
  }
  const auto rank = static_cast<double>(a.mla_kv_rank);
  const auto rope = static_cast<double>(a.mla_rope_dims);
  const auto query_rank = static_cast<double>(a.mla_q_rank);
  const double query = heads + static_cast<double>(m.n_heads) * rope;
  return d * (rank + rope + heads) + 2 * heads * rank + (query_rank > 0 ? query_rank * (d + query) : d * query) +
         indexer;
}

namespace {

void check_indexer(const AttentionConfig& a, PositionFindings& found) {
  if (a.pattern != AttentionPattern::top_k) return;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& message) {
    if (!holds) found.push_back({std::move(keys), message});
  };
  require(a.top_k >= 1, {"attention.top_k", "attention.pattern"},
          "attention.pattern = top_k needs the number of keys that a query attends to: attention.top_k = "
          "train.context_length / 8, for example");
  require(a.index_heads >= 1, {"attention.index_heads"},
          fmt::format("attention.index_heads = {} must be positive", a.index_heads));
  require(a.index_dim >= 4 && a.index_dim % 4 == 0, {"attention.index_dim"},
          fmt::format("attention.index_dim = {} must be a positive multiple of 4: half of its columns turn in pairs",
                      a.index_dim));
  const bool power_of_two = a.index_dim > 0 && (a.index_dim & (a.index_dim - 1)) == 0;
  require(!a.index_hadamard || power_of_two, {"attention.index_hadamard", "attention.index_dim"},
          fmt::format("attention.index_hadamard = true needs a power of two, which attention.index_dim = {} is not",
                      a.index_dim));
  require(a.index_precision != IndexPrecision::int8 || a.index_dim <= kMostInt8Columns,
          {"attention.index_precision", "attention.index_dim"},
          fmt::format("attention.index_precision = int8 has exact sums up to {} columns; attention.index_dim = {}",
                      kMostInt8Columns, a.index_dim));
}

}  // namespace

PositionFindings check_attention(const ArchitectureConfig& config) {
  const ModelConfig& m = config.model;
  const AttentionConfig& a = config.attention;
  PositionFindings found;
  check_indexer(a, found);
  if (a.kind != AttentionKind::mla) return found;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& message) {
    if (!holds) found.push_back({std::move(keys), message});
  };
  const std::string& encoding = config.position.encoding;
  require(a.mla_kv_rank > 0, {"attention.mla_kv_rank", "attention.kind"},
          "attention.kind = mla needs the size of its latent: attention.mla_kv_rank = 4 x model.d_head, for example");
  require(m.n_kv_heads == m.n_heads, {"model.n_kv_heads", "attention.kind"},
          fmt::format("model.n_kv_heads = {} with attention.kind = mla, where heads share a latent instead of keys and "
                      "values; leave it out",
                      m.n_kv_heads));
  require(!m.qk_norm, {"model.qk_norm", "attention.kind"},
          "model.qk_norm = true with attention.kind = mla, which decodes without making the keys that it would "
          "normalize; attention.mla_latent_norm normalizes the latents");
  require(a.mla_rope_dims % 2 == 0, {"attention.mla_rope_dims"},
          fmt::format("attention.mla_rope_dims = {} must be even: it is rotated in pairs", a.mla_rope_dims));
  const PositionSchemeInfo* scheme = find_position_scheme(encoding);
  require(scheme == nullptr || !scheme->rotates || a.mla_rope_dims > 0,
          {"position.encoding", "attention.mla_rope_dims"},
          fmt::format("position.encoding = {} with attention.kind = mla rotates attention.mla_rope_dims columns, which "
                      "are 0; give their number, model.d_head / 2 for example",
                      encoding));
  require(encoding != "shaw" && encoding != "xl", {"position.encoding", "attention.kind"},
          fmt::format("position.encoding = {} adds vectors to keys, which attention.kind = mla never makes when it "
                      "decodes; use attention.kind = mha, or an encoding that adds a bias or rotates",
                      encoding));
  const int64_t rope_dims = config.position.integer("rope_dims");
  require(rope_dims == 0 || rope_dims == a.mla_rope_dims, {"position.rope_dims", "attention.mla_rope_dims"},
          fmt::format("position.rope_dims = {} with attention.kind = mla, which rotates attention.mla_rope_dims = {} "
                      "columns; leave it out",
                      rope_dims, a.mla_rope_dims));
  return found;
}

}  // namespace ropewalk
