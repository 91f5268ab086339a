#pragma once

#include "framework/ops/attention_problem.h"

namespace ropewalk {

/// Attention of one head, row by row and only over visible keys: the path for operands that hold a NaN or an infinity,
/// where 0 x NaN in a tile would let a masked value through. Works on the packed operands of the tiled path.
template <class T>
struct AttentionRows {
  const AttentionProblem<T>& p;
  const AttentionScratch<T>& w;
  int64_t h;
  const T* bias;  ///< of this head, or null

  T score(int64_t t, int64_t j) const {
    const int64_t i = p.position(t);
    T sum = 0;
    for (int64_t c = 0; c < p.dk; ++c) {
      T key = w.kt[c * w.keys_pad + j];
      if (p.relative_keys != nullptr) key += p.relative_key(h, p.relative_row(i, j))[c];
      sum += w.q[t * w.dk_pad + c] * key;
    }
    if (bias != nullptr) sum += bias[p.offset_column(i, j)];
    return p.distance != nullptr ? sum + p.distance_bias(h, i, j) : sum;
  }

  T value(int64_t i, int64_t j, int64_t c) const {
    const T v = w.v[j * w.dv_pad + c];
    return p.relative_values != nullptr ? v + p.relative_values[p.relative_row(i, j) * p.dv + c] : v;
  }

  /// y [dv] and the log-sum-exp of one query; entropy and greatest score on request.
  T forward(int64_t t, T* y, double* entropy, double* max_logit) const {
    const int64_t i = p.position(t);
    T largest = -std::numeric_limits<T>::infinity();
    for (int64_t j = 0; j < p.keys; ++j) {
      // Written so that a NaN score is kept, as a softmax would.
      if (p.mask.visible(i, j) && !(score(t, j) <= largest)) largest = score(t, j);
    }
    std::fill(y, y + p.dv, T(0));
    if (largest == -std::numeric_limits<T>::infinity()) return std::numeric_limits<T>::infinity();
    T sum = 0;
    T dot = 0;
    for (int64_t j = 0; j < p.keys; ++j) {
      if (!p.mask.visible(i, j)) continue;
      const T s = score(t, j);
      const T e = std::exp(s - largest);
      sum += e;
      if (e > 0) dot += e * s;
      for (int64_t c = 0; c < p.dv; ++c) y[c] += e * value(i, j, c);
    }
    for (int64_t c = 0; c < p.dv; ++c) y[c] /= sum;
    const T lse = largest + std::log(sum);
    if (entropy != nullptr) *entropy += static_cast<double>(lse - dot / sum);
    if (max_logit != nullptr) *max_logit = std::max(*max_logit, static_cast<double>(largest));
    return lse;
  }

  /// Adds what one query contributes; dq [dk] is overwritten and not yet scaled. d_bias is of this head, or null.
  void backward(int64_t t, T lse, T delta, T* dq, T* d_bias) const {
    const int64_t i = p.position(t);
    std::fill(dq, dq + p.dk, T(0));
    if (lse == std::numeric_limits<T>::infinity()) return;
    T* d_rel = w.d_rel + p.relative_head(h) * p.relative_rows() * w.dk_pad;
    for (int64_t j = 0; j < p.keys; ++j) {
      if (!p.mask.visible(i, j)) continue;
      const T probability = std::exp(score(t, j) - lse);
      T dp = 0;
      for (int64_t c = 0; c < p.dv; ++c) {
        const T share = probability * w.dy[t * w.dv_pad + c];
        dp += w.dy[t * w.dv_pad + c] * value(i, j, c);
        w.dv[j * w.dv_pad + c] += share;
        if (p.relative_values != nullptr) w.d_rel_v[p.relative_row(i, j) * w.dv_pad + c] += share;
      }
      const T ds = probability * (dp - delta);
      if (d_bias != nullptr) d_bias[p.offset_column(i, j)] += ds;
      if (p.distance != nullptr) p.add_distance_gradient(h, i, j, ds);
      for (int64_t c = 0; c < p.dk; ++c) {
        dq[c] += ds * w.k[j * w.dk_pad + c];
        w.dk[j * w.dk_pad + c] += ds * w.q[t * w.dk_pad + c];
        if (p.relative_keys != nullptr) {
          dq[c] += ds * p.relative_key(h, p.relative_row(i, j))[c];
          d_rel[p.relative_row(i, j) * w.dk_pad + c] += ds * w.q[t * w.dk_pad + c];
        }
      }
    }
  }
};

}  // namespace ropewalk
