#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "framework/ops/selected_keys.h"

namespace ropewalk {

/// An unsigned integer that orders as x does, with -0 and +0 equal and a NaN below all others.
template <class T>
auto rank_of(T x) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (x != x) return U{0};
  constexpr U kSign = U{1} << (8 * sizeof(T) - 1);
  const U bits = std::bit_cast<U>(x + T(0));
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

template <class T>
using Rank = decltype(rank_of(T()));

/// out [k] = positions of the k visible keys of greatest score, of equal ones the lower positions, ascending; all of
/// them, and -1 behind, where fewer than k are visible. Scores of hidden keys are not read. `ranks` is room for two per
/// key.
template <class T>
void top_k_row(const T* scores, const VisibleKeys& visible, int64_t k, Rank<T>* ranks, int32_t* out) {
  const int64_t n = visible.count();
  int64_t written = 0;
  if (n <= k) {
    visible.for_each_range([&](KeyRange keys) {
      for (int64_t j = keys.begin; j < keys.end; ++j) out[written++] = static_cast<int32_t>(j);
    });
    std::fill(out + written, out + k, -1);
    return;
  }
  if (k == 0) return;
  int64_t count = 0;
  visible.for_each_range([&](KeyRange keys) {
    for (int64_t j = keys.begin; j < keys.end; ++j) ranks[count++] = rank_of(scores[j]);
  });
  Rank<T>* ordered = ranks + n;
  std::copy(ranks, ranks + n, ordered);
  std::nth_element(ordered, ordered + k - 1, ordered + n, std::greater<>());
  const Rank<T> least = ordered[k - 1];
  // nth_element leaves those that are greater than the least somewhere before it.
  int64_t equal = k - std::count_if(ordered, ordered + k - 1, [&](Rank<T> rank) { return rank > least; });
  count = 0;
  visible.for_each_range([&](KeyRange keys) {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const Rank<T> rank = ranks[count++];
      if (rank > least || (rank == least && equal-- > 0)) out[written++] = static_cast<int32_t>(j);
    }
  });
}

}  // namespace ropewalk
