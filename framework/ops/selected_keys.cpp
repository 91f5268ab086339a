#include "framework/ops/selected_keys.h"

namespace ropewalk {

void check_selected_keys(const char* op, const SelectedKeys& selected, const AttentionExtents& e,
                         const AttentionOptions& options) {
  require(selected.sequences == e.B && selected.queries == e.queries && selected.width >= 0,
          "{}: keys are selected for {} sequences of {} queries, the operands have {} of {}", op, selected.sequences,
          selected.queries, e.B, e.queries);
  const SequenceKeys sequences{options.first_key, options.key_end};
  for (int64_t b = 0; b < e.B; ++b) {
    const auto [begin, end] = sequences.keys_of(b, e.keys);
    const int64_t keys = end - begin;
    const int64_t skipped = sequences.skipped_queries(b, e.queries, e.keys);
    for (int64_t t = 0; t < e.queries; ++t) {
      const int64_t i = e.keys - e.queries + t - begin;
      const int32_t* row = selected.row(b, t);
      int64_t previous = -1;
      int64_t n = 0;
      for (; n < selected.width && row[n] >= 0; ++n) {
        require(row[n] > previous && row[n] < keys,
                "{}: query {} of sequence {} selects key {} after key {}; positions ascend and are below {}", op, t, b,
                row[n], previous, keys);
        require(t >= skipped && options.mask.visible(i, row[n]),
                "{}: query {} of sequence {}, at position {}, selects key {}, which it does not see", op, t, b, i,
                row[n]);
        previous = row[n];
      }
      for (; n < selected.width; ++n) {
        require(row[n] == -1,
                "{}: query {} of sequence {} selects key {} after the end of its row; only -1 may follow -1", op, t, b,
                row[n]);
      }
    }
  }
}

}  // namespace ropewalk
