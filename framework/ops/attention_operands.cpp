#include "framework/ops/attention_operands.h"

#include "framework/ops/checks.h"

namespace ropewalk {
namespace {

int64_t rows_of(const Heads& heads) {
  return heads.rows < 0 ? heads.x.shape()[1] : heads.rows;
}

}  // namespace

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
  check_same_dtype("attention: relative_keys", q, o.relative_keys);
  require(e.G >= 1 && e.H % e.G == 0, "{}: {} query heads cannot share {} key/value heads", op, e.H, e.G);
  const bool positions_matter =
      o.mask.causal || o.mask.window_radius >= 0 || o.offset_bias || o.relative_keys || o.rotary != nullptr;
  require(e.queries <= e.keys || !positions_matter, "{}: {} queries for {} keys; queries stand at the end of the keys",
          op, e.queries, e.keys);
  check_sequences(op, e.B, e.keys, o.first_key, o.key_end);
  if (o.offset_bias) {
    const int64_t origin = o.offset_origin < 0 ? e.keys - 1 : o.offset_origin;
    const Shape& shape = o.offset_bias.shape();
    constexpr const char* name = "attention: offset_bias";
    if (o.offset_origin < 0) check_shape(name, shape, {e.H, e.keys + e.queries - 1});
    check_shape(name, shape, {e.H, -1});
    require(origin >= e.keys - 1 && shape[1] - origin >= e.queries,
            "{}: offset_bias has {} columns from offset {} on; {} queries of {} keys need {} from {} on", op, shape[1],
            -origin, e.queries, e.keys, e.keys + e.queries - 1, 1 - e.keys);
  }
  if (o.relative_keys) {
    check_shape("attention: relative_keys", o.relative_keys.shape(), {-1, e.dk});
    require(o.relative_keys.shape()[0] % 2 == 1, "{}: relative_keys has {} rows, expected 2 clip + 1", op,
            o.relative_keys.shape()[0]);
  }
  if (o.rotary != nullptr) {
    require(o.rotary->dims <= e.dk && o.rotary->cos.shape[0] >= e.keys,
            "{}: a rotary table of {} columns and {} positions for keys of {} columns at {} positions", op,
            o.rotary->dims, o.rotary->cos.shape[0], e.dk, e.keys);
    require(o.rotary->cos.dtype == q.dtype(), "{}: a rotary table in {} for queries in {}", op,
            name_of(o.rotary->cos.dtype), name_of(q.dtype()));
  }
}

int64_t first_bias_column(const AttentionExtents& e, const AttentionOptions& options) {
  return (options.offset_origin < 0 ? e.keys - 1 : options.offset_origin) - (e.keys - 1);
}

}  // namespace ropewalk
