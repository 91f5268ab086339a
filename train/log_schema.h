#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ropewalk {

inline constexpr const char* kLogSchema = "ropewalk-log";
inline constexpr int64_t kLogSchemaVersion = 1;

/// A log cannot be read or does not belong to the run; the message names the file and the reason.
class LogError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A log cannot be written (a full disk): no fault of what is in it. The message names the file and the reason.
class LogWriteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class LogStatus : int64_t { running = 0, finished = 1, interrupted = 2, diverged = 3, failed = 4 };

/// "running", "finished", ...
const char* to_string(LogStatus status);

/// The labels of a log's dimensions. Groups without labels are left out of the file.
struct LogSchema {
  std::vector<int64_t> entries = {0};    ///< /run: what the entries of `status` belong to; several seeds for a probe
  int64_t n_layers = 0;                  ///< /layers, /residual (depths 0 ... n_layers), /attention
  int64_t n_heads = 0;                   ///< /attention
  std::vector<std::string> layer_kinds;  ///< /layers: attention_norm, attention.query, ..., block
  std::vector<std::string> stem_kinds;   ///< /stem: token_embedding, ..., lm_head
  std::vector<int64_t> eval_lengths;     ///< /eval
  std::vector<int64_t> positions;        ///< /eval: first positions of the buckets of loss_by_position
  bool task = false;                     ///< /eval: accuracy and exact_match too
  std::string eval_protocol;             ///< attribute `protocol` of /eval
  int64_t train_length = 0;              ///< attribute `train_length` of /eval

  bool operator==(const LogSchema&) const = default;
};

/// The attributes of the file.
struct LogHeader {
  std::string run_id, config, command_line, version, host, cpu, device, started;

  bool operator==(const LogHeader&) const = default;
};

// One row of each group. Spans are row-major in the order of the dimensions named.

struct TrainRow {
  int64_t step = 0;
  float loss = 0;
  float index_loss = std::numeric_limits<float>::quiet_NaN();  ///< of the indexers, which NaN says there are none of
  float lr = 0;
  float grad_norm = 0;  ///< before clipping
  float param_norm = 0;
  float step_time = 0;  ///< seconds
  float tokens_per_s = 0;
  int64_t tokens = 0;    ///< seen since the start of the run
  double wall_time = 0;  ///< seconds since the start of the run
};
struct LayersRow {
  int64_t step = 0;
  std::span<const float> grad_norm, param_norm, update_ratio;  ///< [layer, kind]; NaN where a kind is absent
};
struct StemRow {
  int64_t step = 0;
  std::span<const float> grad_norm;  ///< [kind]
};
struct ResidualRow {
  int64_t step = 0;
  std::span<const float> grad_norm, rms;  ///< [depth], n_layers + 1 of them
};
struct AttentionRow {
  int64_t step = 0;
  std::span<const float> entropy, max_logit;  ///< [layer, head]
};
struct EvalRow {
  int64_t step = 0;
  std::span<const float> loss;                   ///< [length]
  std::span<const float> accuracy, exact_match;  ///< [length]; only for tasks
  std::span<const float> loss_by_position;       ///< [length, position]; NaN beyond the length
};

// All rows of a group, column by column: what a log holds in memory, before it is written and after it was read.

struct TrainTable {
  std::vector<int64_t> step;
  std::vector<float> loss, index_loss, lr, grad_norm, param_norm, step_time, tokens_per_s;
  std::vector<int64_t> tokens;
  std::vector<double> wall_time;
};
struct LayersTable {
  std::vector<int64_t> step;
  std::vector<float> grad_norm, param_norm, update_ratio;  ///< [step, layer, kind]
};
struct StemTable {
  std::vector<int64_t> step;
  std::vector<float> grad_norm;  ///< [step, kind]
};
struct ResidualTable {
  std::vector<int64_t> step;
  std::vector<float> grad_norm, rms;  ///< [step, depth]
};
struct AttentionTable {
  std::vector<int64_t> step;
  std::vector<float> entropy, max_logit;  ///< [step, layer, head]
};
struct EvalTable {
  std::vector<int64_t> step;
  std::vector<float> loss, accuracy, exact_match;  ///< [step, length]
  std::vector<float> loss_by_position;             ///< [step, length, position]
};
struct LogTables {
  TrainTable train;
  LayersTable layers;
  StemTable stem;
  ResidualTable residual;
  AttentionTable attention;
  EvalTable eval;
};

/// The dimensions of a column beside `step`.
enum class LogAxis : uint8_t { none, layer, layer_kind, stem_kind, depth, head, length, position };

struct ColumnSpec {
  const char* name;
  std::array<LogAxis, 2> axes;
  const char* units;
  const char* long_name;
  bool added_later = false;  ///< logs of earlier versions lack it; it is read as NaN there
};

/// Length of a dimension; `none` has length 1.
uint64_t axis_length(const LogSchema& schema, LogAxis axis);
/// The name of a dimension in the file: both axes of kinds are called `kind`.
const char* axis_name(LogAxis axis);
/// Shape of one row of a column: empty for a scalar.
std::vector<uint64_t> row_shape(const LogSchema& schema, const ColumnSpec& column);
/// Values in one row of a column; 0 where the schema leaves the column out.
uint64_t row_size(const LogSchema& schema, const char* group, const ColumnSpec& column);

/// Calls f(name, table) for every group; `train` comes last: its rows are committed after those of the same step
/// elsewhere.
template <typename Tables, typename F>
void for_each_group(Tables& tables, F&& f) {
  f("eval", tables.eval);
  f("attention", tables.attention);
  f("residual", tables.residual);
  f("stem", tables.stem);
  f("layers", tables.layers);
  f("train", tables.train);
}

/// Calls f(spec, vector) for every column of a table but `step`.
template <typename Table, typename F>
void for_each_column(Table& t, F&& f) {
  using enum LogAxis;
  using T = std::remove_const_t<Table>;
  if constexpr (std::is_same_v<T, TrainTable>) {
    f(ColumnSpec{"loss", {}, "nat/token", "training loss, mean over the target tokens of the step"}, t.loss);
    f(ColumnSpec{"index_loss",
                 {},
                 "nat",
                 "divergence of the indexers from the attention they foretell, mean over queries and layers",
                 true},
      t.index_loss);
    f(ColumnSpec{"lr", {}, "1", "learning rate"}, t.lr);
    f(ColumnSpec{"grad_norm", {}, "1", "L2 norm of the gradient before clipping"}, t.grad_norm);
    f(ColumnSpec{"param_norm", {}, "1", "L2 norm of all parameters"}, t.param_norm);
    f(ColumnSpec{"step_time", {}, "s", "duration of the step"}, t.step_time);
    f(ColumnSpec{"tokens_per_s", {}, "1/s", "training tokens per second"}, t.tokens_per_s);
    f(ColumnSpec{"tokens", {}, "1", "training tokens seen so far"}, t.tokens);
    f(ColumnSpec{"wall_time", {}, "s", "time since the start of the run"}, t.wall_time);
  } else if constexpr (std::is_same_v<T, LayersTable>) {
    f(ColumnSpec{"grad_norm", {layer, layer_kind}, "1", "L2 norm of the gradient of a module's parameters"},
      t.grad_norm);
    f(ColumnSpec{"param_norm", {layer, layer_kind}, "1", "L2 norm of a module's parameters"}, t.param_norm);
    f(ColumnSpec{"update_ratio", {layer, layer_kind}, "1", "L2 norm of the update over that of the parameters"},
      t.update_ratio);
  } else if constexpr (std::is_same_v<T, StemTable>) {
    f(ColumnSpec{"grad_norm", {stem_kind, none}, "1", "L2 norm of the gradient of a module outside the blocks"},
      t.grad_norm);
  } else if constexpr (std::is_same_v<T, ResidualTable>) {
    f(ColumnSpec{"grad_norm", {depth, none}, "1", "L2 norm of the gradient at the residual stream"}, t.grad_norm);
    f(ColumnSpec{"rms", {depth, none}, "1", "root mean square of the residual stream"}, t.rms);
  } else if constexpr (std::is_same_v<T, AttentionTable>) {
    f(ColumnSpec{"entropy", {layer, head}, "nat", "mean entropy of the attention weights of a query"}, t.entropy);
    f(ColumnSpec{"max_logit", {layer, head}, "1", "largest attention logit"}, t.max_logit);
  } else {
    static_assert(std::is_same_v<T, EvalTable>);
    f(ColumnSpec{"loss", {length, none}, "nat/token", "held-out loss at an evaluated length"}, t.loss);
    f(ColumnSpec{"accuracy", {length, none}, "1", "share of answer tokens that are right"}, t.accuracy);
    f(ColumnSpec{"exact_match", {length, none}, "1", "share of answers that are right as a whole"}, t.exact_match);
    f(ColumnSpec{"loss_by_position", {length, position}, "nat/token", "held-out loss by position in the sequence"},
      t.loss_by_position);
  }
}

}  // namespace ropewalk
