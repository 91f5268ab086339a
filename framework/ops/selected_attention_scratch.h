#pragma once

#include <algorithm>

#include "framework/arena.h"
#include "framework/ops/attention_problem.h"
#include "framework/ops/padding.h"

namespace ropewalk {

/// Memory that attention over selected keys uses while it runs: the keys and values of one head, and what belongs to
/// one query.
template <class T>
struct SelectedScratch {
  int64_t dk_pad, dv_pad;
  bool* is_selected;        // [keys], by some query of the sequence
  T* k;                     // [keys, dk_pad], rotated; of selected keys only
  T* v;                     // [keys, dv_pad]; of selected keys only
  T* relative;              // [relative heads, relative rows, dk_pad]
  T* relative_values;       // [relative rows, dv_pad]
  T* q;                     // [dk_pad], scaled and rotated
  T* s;                     // [width] scores
  T* p;                     // [width] probabilities, or what is proportional to them
  int32_t* relative_index;  // [width]
  T* row;                   // [the wider of dk_pad and dv_pad]
  // backward
  T* dy;                 // [dv_pad]
  T* ds;                 // [width]
  T* query_row;          // [dk_pad]
  T* dk;                 // [keys, dk_pad]
  T* dv;                 // [keys, dv_pad]
  T* d_relative;         // as relative
  T* d_relative_values;  // as relative_values

  SelectedScratch(Arena& arena, const AttentionProblem<T>& problem, int64_t width, bool backward) {
    dk_pad = padded_width<T>(problem.dk);
    dv_pad = padded_width<T>(problem.dv);
    const int64_t key_rows = problem.relative_keys != nullptr ? problem.relative_heads * problem.relative_rows() : 0;
    const int64_t value_rows = problem.relative_values != nullptr ? problem.relative_rows() : 0;
    const auto take = [&](int64_t n) { return arena.allocate<T>(static_cast<std::size_t>(n)); };
    is_selected = arena.allocate<bool>(static_cast<std::size_t>(problem.keys));
    k = take(problem.keys * dk_pad);
    v = take(problem.keys * dv_pad);
    relative = take(key_rows * dk_pad);
    relative_values = take(value_rows * dv_pad);
    q = take(dk_pad);
    s = take(width);
    p = take(width);
    relative_index = arena.allocate<int32_t>(static_cast<std::size_t>(width));
    row = take(std::max(dk_pad, dv_pad));
    if (!backward) return;
    dy = take(dv_pad);
    ds = take(width);
    query_row = take(dk_pad);
    dk = take(problem.keys * dk_pad);
    dv = take(problem.keys * dv_pad);
    d_relative = take(key_rows * dk_pad);
    d_relative_values = take(value_rows * dv_pad);
  }
};

}  // namespace ropewalk
