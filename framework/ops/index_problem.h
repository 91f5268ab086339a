#pragma once

#include <algorithm>

#include "framework/arena.h"
#include "framework/ops/attention_operands.h"
#include "framework/ops/checks.h"
#include "framework/ops/padding.h"
#include "framework/ops/selected_keys.h"

namespace ropewalk {

/// One call of the lightning indexer, as kernels see it:
///   score(t, j) = key_scale_j sum over heads h of w_th relu(q_th . k_j)
template <class T>
struct IndexProblem {
  int64_t B = 0, queries = 0, keys = 0, heads = 0, d = 0;
  const T* q = nullptr;          ///< [B, queries, heads * d]
  const T* k = nullptr;          ///< [B, keys, d]
  const T* w = nullptr;          ///< [B, queries, heads]
  const T* key_scale = nullptr;  ///< [B, keys], or null: 1
  int64_t first_position = 0;    ///< where query 0 stands among the keys
  SequenceKeys sequences = {};   ///< of the whole call only

  /// Rows of the only sequence.
  const T* q_row(int64_t t) const { return q + t * heads * d; }
  const T* w_row(int64_t t) const { return w + t * heads; }
  int64_t position(int64_t t) const { return first_position + t; }
  KeyRange keys_of(int64_t b) const { return sequences.keys_of(b, keys); }
  /// Leading queries of sequence b that are no tokens of it; all where it has no key.
  int64_t skipped_queries(int64_t b) const { return sequences.skipped_queries(b, queries, keys); }

  /// Sequence b alone, its own keys counted from 0.
  IndexProblem sequence(int64_t b) const {
    IndexProblem one = *this;
    const auto [begin, end] = keys_of(b);
    const int64_t skipped = skipped_queries(b);
    one.B = 1;
    one.sequences = {};
    one.keys = end - begin;
    one.queries = queries - skipped;
    one.first_position = first_position + skipped - begin;
    one.q = q + (b * queries + skipped) * heads * d;
    one.k = k + (b * keys + begin) * d;
    one.w = w + (b * queries + skipped) * heads;
    if (key_scale != nullptr) one.key_scale = key_scale + b * keys + begin;
    return one;
  }
  /// Queries that are taken together.
  int64_t block() const { return std::clamp<int64_t>(64 / heads, 1, 16); }
};

/// Checks the operands of an indexer, q [B, T, heads * d], k [B, S, d], w [B, T, heads], and makes its problem but for
/// the data.
template <class T>
IndexProblem<T> index_extents(const char* op, Var q, Var k, Var w, const SequenceKeys& sequences) {
  // Texts are made where there is something to say only: they would cost every call an allocation.
  if (q.shape().rank() != 3 || k.shape().rank() != 3 || w.shape().rank() != 3) {
    fail(
        "{}: q {}, k {} and w {} are [batch, queries, heads * columns], [batch, keys, columns] and [batch, queries, "
        "heads]",
        op, q.shape().to_string(), k.shape().to_string(), w.shape().to_string());
  }
  IndexProblem<T> p{q.shape()[0], q.shape()[1], k.shape()[1], w.shape()[2], k.shape()[2]};
  require(p.heads >= 1 && p.d >= 1, "{}: an indexer of {} heads of {} columns", op, p.heads, p.d);
  if (q.shape()[2] != p.heads * p.d || k.shape()[0] != p.B || w.shape()[0] != p.B || w.shape()[1] != p.queries) {
    fail(
        "{}: q {}, k {} and w {} do not go together; expected [batch, queries, heads * columns], [batch, keys, "
        "columns] and [batch, queries, heads]",
        op, q.shape().to_string(), k.shape().to_string(), w.shape().to_string());
  }
  require(p.queries <= p.keys, "{}: {} queries for {} keys; queries stand at the end of the keys", op, p.queries,
          p.keys);
  check_same_dtype(op, q, k);
  check_same_dtype(op, q, w);
  check_sequences(op, p.B, p.keys, sequences.first_key, sequences.key_end);
  p.first_position = p.keys - p.queries;
  p.sequences = sequences;
  return p;
}

/// The same with the data.
template <class T>
IndexProblem<T> index_problem(const char* op, Var q, Var k, Var w, const SequenceKeys& sequences = {}) {
  IndexProblem<T> p = index_extents<T>(op, q, k, w, sequences);
  p.q = q.value().data<T>();
  p.k = k.value().data<T>();
  p.w = w.value().data<T>();
  return p;
}

/// Memory that the kernels of the indexer use while they run, for one sequence and one block of its queries.
template <class T>
struct IndexScratch {
  int64_t keys_pad, d_pad;
  T* tiles;     // tiles of [d, kTileColumns]
  T* products;  // [block * heads, kTileColumns]
  T* scores;    // [block, keys_pad]
  // backward
  T* q;   // [block * heads, d_pad]
  T* k;   // [keys, d_pad]
  T* dq;  // [block * heads, d_pad]
  T* dk;  // [keys, d_pad]

  IndexScratch(Arena& arena, const IndexProblem<T>& p, bool backward) {
    keys_pad = tiled_columns(p.keys);
    d_pad = padded_width<T>(p.d);
    const auto take = [&](int64_t n) { return arena.allocate<T>(static_cast<std::size_t>(n)); };
    const int64_t block_rows = p.block() * p.heads;
    tiles = take(keys_pad * p.d);
    products = take(block_rows * kTileColumns);
    scores = take(p.block() * keys_pad);
    if (!backward) return;
    q = take(block_rows * d_pad);
    k = take(p.keys * d_pad);
    dq = take(block_rows * d_pad);
    dk = take(p.keys * d_pad);
  }
};

/// Where the gradients of an indexer go; null where none is wanted. They are added to.
template <class T>
struct IndexGradients {
  T* dq = nullptr;  ///< as q
  T* dk = nullptr;  ///< as k
  T* dw = nullptr;  ///< as w

  /// Those of sequence b alone.
  IndexGradients sequence(const IndexProblem<T>& p, int64_t b) const {
    const int64_t query = b * p.queries + p.skipped_queries(b);
    IndexGradients one;
    if (dq != nullptr) one.dq = dq + query * p.heads * p.d;
    if (dk != nullptr) one.dk = dk + (b * p.keys + p.keys_of(b).begin) * p.d;
    if (dw != nullptr) one.dw = dw + query * p.heads;
    return one;
  }
};

}  // namespace ropewalk
