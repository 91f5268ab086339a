#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/tape.h"
#include "layers/positions/table_length.h"

namespace ropewalk {

/// What a scheme has made of the parameters of one block for the offsets of `length` positions, kept where these cannot
/// change between passes: by a cache, whose keys are made of them, too.
struct KeptTables {
  int64_t length = 0;
  std::vector<Tensor> tables;
};

/// The same values in memory of its own, which outlives the tape.
inline Tensor copy_to_keep(const Tensor& x) {
  Tensor out = Tensor::zeros(x.shape, x.dtype);
  std::memcpy(out.bytes, x.bytes, x.size_bytes());
  return out;
}

/// The tables of a pass, and for how many positions they are made.
template <std::size_t N>
struct OffsetTables {
  std::array<Var, N> tables;
  int64_t length = 0;
};

/// make(n), which gives N tables for the offsets of n positions: made for `length`, or, where they can be kept, for
/// some more, once. So decoding does not pay for all offsets with every token.
template <std::size_t N, class Make>
OffsetTables<N> offset_tables(Tape& tape, KeptTables* kept, int64_t length, Make&& make) {
  if (kept == nullptr) return {make(length), length};
  if (kept->length < length) {
    kept->length = table_length(length);
    kept->tables.clear();
    for (const Var table : make(kept->length)) kept->tables.push_back(copy_to_keep(table.value()));
  }
  OffsetTables<N> out{.length = kept->length};
  for (std::size_t i = 0; i < N; ++i) out.tables[i] = tape.constant(kept->tables[i]);
  return out;
}

}  // namespace ropewalk
