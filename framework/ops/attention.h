#pragma once

#include <cstdint>
#include <span>

#include "framework/ops/heads.h"
#include "framework/ops/rope.h"
#include "framework/tape.h"

namespace ropewalk {

/// Which keys a query sees. With T queries and S >= T keys, query t stands at position i = S - T + t, key j at j.
struct AttentionMask {
  bool causal = true;          ///< j <= i, always on top of the rest
  int64_t window_radius = -1;  ///< |i - j| <= radius; -1: no window
  int64_t global_tokens = 0;   ///< with a window: positions below it see, and are seen by, all

  bool visible(int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    if (window_radius < 0 || i < global_tokens || j < global_tokens) return true;
    return (i > j ? i - j : j - i) <= window_radius;
  }
};

/// What attention tells about itself, summed over the sequences and queries of a call.
struct AttentionStatistics {
  double* entropy = nullptr;    ///< [H]; += sum over queries of -sum_j p_j ln p_j, in nats
  double* max_logit = nullptr;  ///< [H]; max over visible pairs of the score that enters the softmax
};

/// A bias that depends on where the query stands beside the offset, f_h(distance(j - i) normalizer(i)), for a function
/// f_h of each head that consists of lines (FIRE, Li et al. 2024; see framework/ops/fire.h).
struct DistanceBias {
  Var distance = {};    ///< [n]: columns as of offset_bias; grows with |j - i|
  Var normalizer = {};  ///< [at least 1 + the last query's position]
  Var lines = {};       ///< [2 H + 1, P]: knots, slopes and values at 0 of f, as relu_lines() gives them

  explicit operator bool() const { return static_cast<bool>(distance); }
};

struct AttentionOptions {
  double scale = 1.0;  ///< multiplies q . k (and q . a)
  AttentionMask mask;
  const RotaryTable* rotary =
      nullptr;                      ///< rotates q and k while they are packed; covers S positions; outlives the tape
  Var offset_bias = {};             ///< [H, n]: column j - i + offset_origin is added to the scaled score of (i, j)
  int64_t offset_origin = -1;       ///< column of offset 0; -1: S - 1, and then n = S + T - 1
  DistanceBias distance_bias = {};  ///< likewise added to the scaled score
  Var query_bias = {};              ///< [H, dk]: u is added to q
  Var relative_keys = {};    ///< [2c + 1, dk] (Shaw et al. 2018): a = row clip(j - i, -c, c) + c is added to k; or
                             ///< [2c + 1, H dk], of which head h takes columns h dk on
  Var relative_values = {};  ///< [2c + 1, dv], likewise: row b is added to v; as many rows as relative_keys
  std::span<const int32_t> positions = {};  ///< [at least S], ascending: see below; empty: 0, 1, ... Outlives the tape
  std::span<const int64_t> first_key = {};  ///< [B]: see below; empty: 0. Outlives the tape
  std::span<const int64_t> key_end = {};    ///< [B]: likewise; empty: S
  AttentionStatistics* statistics = nullptr;
};

/// Scaled dot-product attention as one op, in tiles, with an online softmax; memory O(T + S).
///
///   s_ij = scale (q_i + u) . (k_j + a_ij) + bias_ij,   p_ij = softmax over visible j,   y_i = sum_j p_ij (v_j + b_ij)
///
/// q [B, H, T, dk], k [B, G, S, dk], v [B, G, S, dv] -> [B, H, T, dv]; head h reads key/value head h / (H / G). A query
/// that sees no key gives zeros and passes no gradient. What is masked does not matter, even NaN or infinity.
///
/// Sequences of unequal length: those of sequence b are the keys from first_key[b] to key_end[b], and it is served as
/// if there were no others: positions count from its first key, and queries before that give zeros; where no key_end is
/// given, the first may lie beyond all keys, as in the first parts of a padded prompt. Without a causal mask, window,
/// bias or rotation there may be more queries than keys.
///
/// With positions, the offset j - i by which biases and relative rows are looked up is positions[j] - positions[i]
/// instead, of each sequence from its first key on, and so is the position i of a query; offset_origin is given. Masks
/// go by the keys' order as ever.
///
/// Backward (Dao et al. 2022): p is computed again from the kept log-sum-exp L_i;
///   dv_j += sum_i p_ij dy_i      D_i = dy_i . y_i      ds_ij = p_ij (dy_i . (v_j + b_ij) - D_i)
///   dq_i += scale sum_j ds_ij (k_j + a_ij)      dk_j += scale sum_i ds_ij (q_i + u)
///   dbias += ds, du += dq, da += scale ds_ij (q_i + u) and db += p_ij dy_i, each summed over what reads it, and so
///   ddistance += ds f' normalizer, dnormalizer += ds f' distance and, of the line that a pair falls on,
///   dslope += ds distance normalizer, dvalue at 0 += ds. Knots pass no gradient: f is continuous
Var attention(Var q, Var k, Var v, const AttentionOptions& options);

/// The same on heads side by side: q of H heads, k and v of G -> [B, T, H dv]. Parts of one Var must not overlap where
/// it takes a gradient.
Var attention(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);

/// The same on the output of one projection: qkv [B, T, (n_heads + 2 n_kv_heads) d_head], queries first, then keys,
/// then values -> [B, T, n_heads d_head].
Var attention_packed(Var qkv, int64_t n_heads, int64_t n_kv_heads, const AttentionOptions& options);

}  // namespace ropewalk
