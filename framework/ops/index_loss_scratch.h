#pragma once

#include <algorithm>

#include "framework/ops/attention_problem.h"
#include "framework/ops/index_problem.h"

namespace ropewalk {

/// Memory that index_loss uses while it runs, for one sequence and one block of its queries.
template <class T>
struct IndexLossScratch {
  IndexScratch<T> index;
  int64_t dk_pad;           // of the teacher
  T* teacher_k;             // [G, keys, dk_pad], rotated
  T* teacher_tiles;         // [G, tiles of [dk, kTileColumns]]; without a selection only
  T* teacher_q;             // [block, dk_pad]
  T* relative;              // [relative heads, relative rows, dk_pad]
  T* query_relative;        // [relative rows], products of a query with them
  T* scores;                // [block, keys_pad] of one head of the teacher
  T* p;                     // [block, keys_pad]; a row holds the keys that its query sees, without gaps
  T* row;                   // [keys], the same of one head
  T* index_row;             // [keys], the same of the index scores
  T* products;              // [heads, keys] of the indexer with one query
  int32_t* positions;       // [keys]
  int32_t* relative_index;  // [keys]

  IndexLossScratch(Arena& arena, const IndexProblem<T>& problem, const AttentionProblem<T>& teacher, bool dense)
      : index(arena, problem, true), dk_pad(padded_width<T>(teacher.dk)) {
    const int64_t relative_rows = teacher.relative_keys != nullptr ? teacher.relative_rows() : 0;
    const auto take = [&](int64_t n) { return arena.allocate<T>(static_cast<std::size_t>(n)); };
    teacher_k = take(teacher.G * problem.keys * dk_pad);
    teacher_tiles = take(dense ? teacher.G * index.keys_pad * teacher.dk : 0);
    teacher_q = take(problem.block() * dk_pad);
    relative = take(teacher.relative_heads * relative_rows * dk_pad);
    query_relative = take(relative_rows);
    scores = take(problem.block() * index.keys_pad);
    p = take(problem.block() * index.keys_pad);
    row = take(problem.keys);
    index_row = take(problem.keys);
    products = take(problem.heads * problem.keys);
    positions = arena.allocate<int32_t>(static_cast<std::size_t>(problem.keys));
    relative_index = arena.allocate<int32_t>(static_cast<std::size_t>(problem.keys));
  }
};

}  // namespace ropewalk
