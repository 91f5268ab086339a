#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/ops/attention.h"
#include "framework/tape.h"
#include "layers/positions/kept_tables.h"

namespace ropewalk {

/// What attention keeps of the tokens it has seen, so that the next ones cost O(T) instead of O(T^2): for each layer
/// one or more tables [sequences, capacity, columns], all reserved at once. Keys stand in it before rotation, so that a
/// scaling that depends on the length turns old keys as it does new ones.
///
/// The sequences advance together. One whose prompt is shorter than the others' has padding at its left.
class KeyValueCache {
 public:
  /// `columns`: those of each table of a layer (see Transformer::cache_columns()). padding [sequences]: how many
  /// leading places of each sequence hold no token; empty: none.
  KeyValueCache(int64_t n_layers, std::span<const int64_t> columns, int64_t sequences, int64_t capacity, DType dtype,
                std::vector<int64_t> padding = {});

  int64_t sequences() const { return sequences_; }
  int64_t tables_a_layer() const { return tables_a_layer_; }
  int64_t capacity() const { return capacity_; }
  /// Places that are filled, padding among them.
  int64_t length() const { return length_; }
  /// [sequences], or empty.
  std::span<const int64_t> padding() const { return padding_; }
  int64_t bytes() const;

  /// Copies the heads' columns of new rows x [sequences, T, ..] behind the places that are filled; returns them with
  /// all that came before. Throws Error where the capacity does not suffice.
  Heads append(int64_t layer, int64_t table, const Heads& heads);
  /// What cross-attention made of the source in a layer, kept since no token changes it.
  bool has_memory(int64_t layer) const { return memory_[static_cast<std::size_t>(layer)].shape.rank() > 0; }
  const Tensor& memory(int64_t layer) const { return memory_[static_cast<std::size_t>(layer)]; }
  void keep_memory(int64_t layer, const Tensor& made);
  /// What the position scheme has made of a layer's parameters, which are those of the keys as long as there are any.
  KeptTables& kept_tables(int64_t layer) { return kept_tables_[static_cast<std::size_t>(layer)]; }
  /// Counts `count` more places as filled, when all layers have appended theirs.
  void advance(int64_t count) { length_ += count; }
  /// Goes on with these sequences alone, given in ascending order, and without the padding that all of them have. The
  /// tables stay, but bytes() counts what is still used of them.
  void keep(std::span<const int64_t> sequences);
  /// Forgets all tokens, the source and what was kept of the position scheme; the tables stay.
  void clear(std::vector<int64_t> padding = {});

  /// A whole table, for tests and tools.
  Tensor& table(int64_t layer, int64_t table);

 private:
  int64_t tables_a_layer_;
  int64_t sequences_;
  int64_t capacity_;
  int64_t length_ = 0;
  std::vector<int64_t> padding_;
  std::vector<Tensor> tables_;
  std::vector<Tensor> memory_;
  std::vector<KeptTables> kept_tables_;
};

}  // namespace ropewalk
