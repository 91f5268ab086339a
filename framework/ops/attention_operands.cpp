#include "framework/ops/attention_operands.h"

#include <limits>

#include "framework/ops/checks.h"

namespace ropewalk {
namespace {

int64_t rows_of(const Heads& heads) {
  return heads.rows < 0 ? heads.x.shape()[1] : heads.rows;
}

/// From the first key's position to the last's.
int64_t span_of(const AttentionExtents& e, std::span<const int32_t> positions) {
  return e.keys == 0 ? 0 : positions[static_cast<std::size_t>(e.keys - 1)] - positions[0];
}

void check_positions(const AttentionExtents& e, std::span<const int32_t> positions) {
  if (positions.empty()) return;
  require(static_cast<int64_t>(positions.size()) >= e.keys, "attention: {} positions for {} keys", positions.size(),
          e.keys);
  for (std::size_t j = 1; j < positions.size(); ++j) {
    require(positions[j - 1] < positions[j], "attention: position {} of key {} does not exceed {} of the key before",
            positions[j], j, positions[j - 1]);
  }
}

/// Throws unless a table of so many columns has one for every offset.
void check_offsets(const AttentionExtents& e, const AttentionOptions& o, const char* name, int64_t columns) {
  require(o.offset_origin >= 0 || o.positions.empty(), "attention: positions go with an offset_origin that is given");
  const int64_t origin = o.offset_origin < 0 ? e.keys - 1 : o.offset_origin;
  // With positions, those of any sequence.
  const int64_t spread = o.positions.empty() ? e.keys - 1 : span_of(e, o.positions);
  const int64_t ahead = o.positions.empty() ? e.queries - 1 : spread;
  require(o.offset_origin >= 0 || columns == spread + ahead + 1,
          "attention: {} has {} columns, expected {} for {} queries of {} keys", name, columns, spread + ahead + 1,
          e.queries, e.keys);
  require(origin >= spread && columns - origin > ahead,
          "attention: {} has {} columns from offset {} on; {} queries of {} keys need {} from {} on", name, columns,
          -origin, e.queries, e.keys, spread + ahead + 1, -spread);
}

/// Throws where distances shrink away from offset 0 by more than rounding: the lines of a row of keys are found by
/// halving.
void check_distances(Var distance, int64_t origin) {
  dispatch(distance.dtype(), [&]<class T>() {
    const T* x = distance.value().data<T>();
    for (int64_t c = 1; c < distance.shape()[0]; ++c) {
      const T nearer = c <= origin ? x[c] : x[c - 1];
      const T farther = c <= origin ? x[c - 1] : x[c];
      const bool shrinks = farther < nearer - 4 * std::numeric_limits<T>::epsilon() * nearer;
      require(!shrinks,
              "attention: distance_bias.distance is {} at offset {} and {} at {}; it grows with the offset's size",
              x[c - 1], c - 1 - origin, x[c], c - origin);
    }
  });
}

void check_distance_bias(const AttentionExtents& e, const AttentionOptions& o) {
  const DistanceBias& bias = o.distance_bias;
  require(bias.normalizer && bias.lines, "attention: distance_bias has a distance but no normalizer or no lines");
  check_shape("attention: distance_bias.distance", bias.distance.shape(), {-1});
  check_shape("attention: distance_bias.normalizer", bias.normalizer.shape(), {-1});
  check_shape("attention: distance_bias.lines", bias.lines.shape(), {2 * e.H + 1, -1});
  check_offsets(e, o, "distance_bias.distance", bias.distance.shape()[0]);
  check_distances(bias.distance, o.offset_origin < 0 ? e.keys - 1 : o.offset_origin);
  const int64_t last =
      o.positions.empty() || e.keys == 0 ? e.keys - 1 : o.positions[static_cast<std::size_t>(e.keys - 1)];
  require(bias.normalizer.shape()[0] > last,
          "attention: distance_bias.normalizer has {} positions; a query stands at {}", bias.normalizer.shape()[0],
          last);
}

}  // namespace

int64_t keys_of_heads(const AttentionExtents& e, Var relative_keys) {
  return relative_keys && relative_keys.shape()[-1] == e.H * e.dk ? e.H : 1;
}

AttentionExtents attention_extents(const char* op, const Heads& q, const Heads& k, const Heads* v) {
  for (const Heads* heads : {&q, &k, v}) {
    if (heads == nullptr) continue;
    check_heads(op, *heads);
    require(heads->x.shape()[0] == q.x.shape()[0], "{}: {} sequences of queries for {} of keys or values", op,
            q.x.shape()[0], heads->x.shape()[0]);
  }
  require(k.width == q.width, "{}: queries of {} columns for keys of {}", op, q.width, k.width);
  if (v != nullptr) {
    require(v->count == k.count && rows_of(*v) == rows_of(k), "{}: {} keys of {} heads for {} values of {} heads", op,
            rows_of(k), k.count, rows_of(*v), v->count);
  }
  return {q.x.shape()[0], q.count, k.count, rows_of(q), rows_of(k), q.width, v != nullptr ? v->width : 0};
}

AttentionOperand attention_operand(const Heads& heads) {
  const int64_t columns = heads.x.shape()[2];
  return {heads.x,     heads.first, heads.x.shape()[1] * columns,
          heads.width, columns,     heads.x.shape()[0] * rows_of(heads) * heads.count * heads.width};
}

void check_sequences(const char* op, int64_t B, int64_t keys, std::span<const int64_t> first_key,
                     std::span<const int64_t> key_end) {
  const auto check_count = [&](std::span<const int64_t> list, const char* name) {
    require(list.empty() || static_cast<int64_t>(list.size()) == B, "{}: {} has {} entries for {} sequences", op, name,
            list.size(), B);
  };
  check_count(first_key, "first_key");
  check_count(key_end, "key_end");
  for (int64_t b = 0; b < B; ++b) {
    const int64_t begin = first_key.empty() ? 0 : first_key[static_cast<std::size_t>(b)];
    const int64_t end = key_end.empty() ? keys : key_end[static_cast<std::size_t>(b)];
    // Without an end of its own, the first token of a sequence may still be to come.
    require(0 <= begin && (begin <= end || key_end.empty()) && end <= keys,
            "{}: sequence {} has keys from {} to {}; they must lie in [0, {}]", op, b, begin, end, keys);
  }
}

void check_attention_operands(const char* op, const AttentionExtents& e, Var q, const AttentionOptions& o) {
  // Names that are made when they are needed would cost every call an allocation.
  check_same_dtype("attention: offset_bias", q, o.offset_bias);
  check_same_dtype("attention: distance_bias.distance", q, o.distance_bias.distance);
  check_same_dtype("attention: distance_bias.normalizer", q, o.distance_bias.normalizer);
  check_same_dtype("attention: distance_bias.lines", q, o.distance_bias.lines);
  check_same_dtype("attention: query_bias", q, o.query_bias);
  check_same_dtype("attention: relative_keys", q, o.relative_keys);
  check_same_dtype("attention: relative_values", q, o.relative_values);
  require(e.G >= 1 && e.H % e.G == 0, "{}: {} query heads cannot share {} key/value heads", op, e.H, e.G);
  const bool positions_matter = o.mask.causal || o.mask.window_radius >= 0 || o.offset_bias || o.distance_bias ||
                                o.relative_keys || o.relative_values || o.rotary != nullptr;
  require(e.queries <= e.keys || !positions_matter, "{}: {} queries for {} keys; queries stand at the end of the keys",
          op, e.queries, e.keys);
  check_sequences(op, e.B, e.keys, o.first_key, o.key_end);
  check_positions(e, o.positions);
  if (o.offset_bias) {
    check_shape("attention: offset_bias", o.offset_bias.shape(), {e.H, -1});
    check_offsets(e, o, "offset_bias", o.offset_bias.shape()[1]);
  }
  if (o.distance_bias) check_distance_bias(e, o);
  if (o.query_bias) check_shape("attention: query_bias", o.query_bias.shape(), {e.H, e.dk});
  const auto check_relative = [](const char* name, Var table, int64_t columns) {
    if (!table) return;
    check_shape(name, table.shape(), {-1, columns});
    require(table.shape()[0] % 2 == 1, "{} has {} rows, expected 2 clip + 1", name, table.shape()[0]);
  };
  check_relative("attention: relative_keys", o.relative_keys, keys_of_heads(e, o.relative_keys) * e.dk);
  check_relative("attention: relative_values", o.relative_values, e.dv);
  require(!o.relative_keys || !o.relative_values || o.relative_keys.shape()[0] == o.relative_values.shape()[0],
          "attention: relative_keys has {} rows, relative_values {}; both are clipped alike",
          o.relative_keys ? o.relative_keys.shape()[0] : 0, o.relative_values ? o.relative_values.shape()[0] : 0);
  if (o.rotary != nullptr) {
    require(o.rotary->dims <= e.dk && o.rotary->cos.shape[0] >= e.keys,
            "attention: a rotary table of {} columns and {} positions for keys of {} columns at {} positions",
            o.rotary->dims, o.rotary->cos.shape[0], e.dk, e.keys);
    require(o.rotary->cos.dtype == q.dtype(), "attention: a rotary table in {} for queries in {}",
            name_of(o.rotary->cos.dtype), name_of(q.dtype()));
  }
}

int64_t first_bias_column(const AttentionExtents& e, const AttentionOptions& o) {
  const int64_t origin = o.offset_origin < 0 ? e.keys - 1 : o.offset_origin;
  return origin - (o.positions.empty() ? e.keys - 1 : span_of(e, o.positions));
}

}  // namespace ropewalk
