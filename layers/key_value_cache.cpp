#include "layers/key_value_cache.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "framework/error.h"

namespace ropewalk {

KeyValueCache::KeyValueCache(int64_t n_layers, std::span<const int64_t> columns, int64_t sequences, int64_t capacity,
                             DType dtype, std::vector<int64_t> padding)
    : tables_a_layer_(static_cast<int64_t>(columns.size())), sequences_(sequences), capacity_(capacity) {
  require(sequences >= 1 && capacity >= 1, "a cache of {} sequences of {} tokens; both must be at least 1", sequences,
          capacity);
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    for (const int64_t width : columns) tables_.push_back(Tensor::zeros({sequences, capacity, width}, dtype));
  }
  memory_.resize(static_cast<std::size_t>(n_layers));
  kept_tables_.resize(static_cast<std::size_t>(n_layers));
  clear(std::move(padding));
}

void KeyValueCache::keep_memory(int64_t layer, const Tensor& made) {
  memory_[static_cast<std::size_t>(layer)] = copy_to_keep(made);
}

void KeyValueCache::clear(std::vector<int64_t> padding) {
  require(padding.empty() || static_cast<int64_t>(padding.size()) == sequences_,
          "the padding of {} sequences for a cache of {}", padding.size(), sequences_);
  for (const int64_t places : padding) {
    require(places >= 0 && places <= capacity_, "a padding of {} places in a cache of {}", places, capacity_);
  }
  padding_ = std::move(padding);
  length_ = 0;
  for (Tensor& kept : memory_) kept = {};
  for (KeptTables& kept : kept_tables_) kept = {};
}

void KeyValueCache::keep(std::span<const int64_t> sequences) {
  require(!sequences.empty(), "a cache that keeps no sequence");
  int64_t shift = padding_.empty() ? 0 : length_;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const int64_t b = sequences[i];
    require(b >= 0 && b < sequences_ && (i == 0 || b > sequences[i - 1]),
            "sequence {} of a cache of {} is to be kept after sequence {}; they must ascend", b, sequences_,
            i == 0 ? -1 : sequences[i - 1]);
    if (!padding_.empty()) shift = std::min(shift, padding_[static_cast<std::size_t>(b)]);
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (!padding_.empty()) padding_[i] = padding_[static_cast<std::size_t>(sequences[i])] - shift;
  }
  if (!padding_.empty()) padding_.resize(sequences.size());
  const auto kept = static_cast<int64_t>(sequences.size());
  for (Tensor& table : tables_) {
    const std::size_t row = static_cast<std::size_t>(table.shape[2]) * size_of(table.dtype);
    auto* bytes = table.data<std::byte>();
    for (int64_t i = 0; i < kept; ++i) {
      const int64_t from = sequences[static_cast<std::size_t>(i)] * capacity_ + shift;
      std::memmove(bytes + static_cast<std::size_t>(i * capacity_) * row, bytes + static_cast<std::size_t>(from) * row,
                   static_cast<std::size_t>(length_ - shift) * row);
    }
    table.shape = {kept, capacity_, table.shape[2]};
  }
  for (Tensor& made : memory_) {
    if (made.shape.rank() == 0) continue;
    const std::size_t sequence = static_cast<std::size_t>(made.shape[1] * made.shape[2]) * size_of(made.dtype);
    auto* bytes = made.data<std::byte>();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      std::memmove(bytes + i * sequence, bytes + static_cast<std::size_t>(sequences[i]) * sequence, sequence);
    }
    made.shape = {kept, made.shape[1], made.shape[2]};
  }
  sequences_ = kept;
  length_ -= shift;
}

int64_t KeyValueCache::bytes() const {
  int64_t total = 0;
  for (const Tensor& table : tables_) total += static_cast<int64_t>(table.size_bytes());
  for (const Tensor& kept : memory_) total += kept.shape.rank() > 0 ? static_cast<int64_t>(kept.size_bytes()) : 0;
  for (const KeptTables& kept : kept_tables_) {
    for (const Tensor& table : kept.tables) total += static_cast<int64_t>(table.size_bytes());
  }
  return total;
}

Tensor& KeyValueCache::table(int64_t layer, int64_t table) {
  return tables_[static_cast<std::size_t>(layer * tables_a_layer_ + table)];
}

Heads KeyValueCache::append(int64_t layer, int64_t table, const Heads& heads) {
  Tensor& to = this->table(layer, table);
  const Shape& shape = heads.x.shape();
  const int64_t columns = heads.count * heads.width;
  const int64_t rows = shape[1];
  require(shape[0] == sequences_ && to.shape[2] == columns,
          "a cache of {} sequences and {} columns is given {} sequences and {} columns", sequences_, to.shape[2],
          shape[0], columns);
  require(length_ + rows <= capacity_, "a cache of {} tokens is full: {} are in it and {} more come", capacity_,
          length_, rows);
  dispatch(to.dtype, [&]<class T>() {
    const T* from = heads.x.value().data<T>() + heads.first;
    for (int64_t b = 0; b < sequences_; ++b) {
      T* out = to.data<T>() + (b * capacity_ + length_) * columns;
      for (int64_t t = 0; t < rows; ++t, from += shape[2], out += columns) {
        std::memcpy(out, from, static_cast<std::size_t>(columns) * sizeof(T));
      }
    }
  });
  return {heads.x.tape->constant(to), 0, heads.count, heads.width, length_ + rows};
}

}  // namespace ropewalk
