#include "train/run_log.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "train/durable_file.h"
#include "train/machine.h"
#include "train/read_log.h"

namespace ropewalk {
namespace {

constexpr std::chrono::seconds kFlushInterval{2};
constexpr std::size_t kTrainRows = 4096;
constexpr std::size_t kOtherRows = 1024;
constexpr std::size_t kTableBytes = std::size_t{4} << 20;

/// Reserves each column's memory, so that appending allocates nothing. The capacity of `step` counts the rows.
void reserve(LogTables& tables, const LogSchema& schema) {
  for_each_group(tables, [&](const char* name, auto& table) {
    std::size_t row_bytes = sizeof(int64_t);
    for_each_column(table, [&](const ColumnSpec& spec, auto& values) {
      row_bytes += row_size(schema, name, spec) * sizeof(values[0]);
    });
    const std::size_t most = std::is_same_v<std::decay_t<decltype(table)>, TrainTable> ? kTrainRows : kOtherRows;
    const std::size_t rows = std::clamp<std::size_t>(kTableBytes / row_bytes, 1, most);
    table.step.reserve(rows);
    for_each_column(table,
                    [&](const ColumnSpec& spec, auto& values) { values.reserve(rows * row_size(schema, name, spec)); });
  });
}

void clear(LogTables& tables) {
  for_each_group(tables, [](const char*, auto& table) {
    table.step.clear();
    for_each_column(table, [](const ColumnSpec&, auto& values) { values.clear(); });
  });
}

void put(std::vector<float>& column, std::span<const float> row) {
  column.insert(column.end(), row.begin(), row.end());
}

void check_row(const char* what, std::span<const float> row, uint64_t expected) {
  if (row.size() == expected) return;
  throw std::invalid_argument("log row: " + std::string(what) + " has " + std::to_string(row.size()) +
                              " values, the log's schema asks for " + std::to_string(expected));
}

std::vector<std::string> storage_warnings(const RunLock& lock) {
  std::vector<std::string> warnings;
  if (!lock.warning().empty()) warnings.push_back(lock.warning());
  if (const std::string kind = network_file_system(lock.directory()); !kind.empty()) {
    warnings.push_back("'" + lock.directory() + "' lies on " + kind +
                       "; a log read there while the run goes on may be incomplete");
  }
  return warnings;
}

/// Runs f; its failures to write become LogWriteError.
template <typename F>
auto as_write_error(F&& f) {
  try {
    return f();
  } catch (const Hdf5Error& error) {
    throw LogWriteError(std::string("cannot write log ") + error.what());
  } catch (const std::system_error& error) {
    throw LogWriteError(std::string("cannot write log: ") + error.what());
  }
}

/// A new log that is on the disk and open to readers when it gets its name.
std::unique_ptr<LogFile> start_file(const std::string& path, const LogSchema& schema, const LogHeader& header,
                                    const LogTables& rows) {
  const std::string temporary = path + ".tmp";
  ::unlink(temporary.c_str());  // of an earlier start that was killed; the lock is ours
  try {
    auto file = std::make_unique<LogFile>(temporary, schema, header,
                                          std::vector<LogStatus>(schema.entries.size(), LogStatus::running),
                                          LogFile::Options());
    file->start_swmr();
    file->write(rows);
    file->sync();
    rename_durably(temporary, path);
    file->renamed(path);
    return file;
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace

struct RunLog::State {
  std::string path;
  LogSchema schema;
  std::vector<LogStatus> status;
  std::unique_ptr<LogFile> file;  // null once finished
  LogTables rows;
  std::vector<std::string> warnings;
  std::chrono::steady_clock::time_point last_flush = std::chrono::steady_clock::now();
  int64_t last_step = -1;
  bool failed = false;

  bool writable() const { return file != nullptr && !failed; }

  void write_rows() {
    file->write(rows);
    clear(rows);
    last_flush = std::chrono::steady_clock::now();
  }
};

RunLog::RunLog(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunLog::RunLog(RunLog&&) noexcept = default;

std::string RunLog::path_in(const std::string& directory) {
  return directory + "/log.h5";
}

RunLog RunLog::create(const RunLock& lock, const LogSchema& schema, const LogHeader& header) {
  auto state = std::make_unique<State>();
  state->path = path_in(lock.directory());
  if (std::filesystem::exists(std::filesystem::symlink_status(state->path))) {
    throw LogWriteError("cannot write log '" + state->path + "': it exists; resume the run, or use another directory");
  }
  state->schema = schema;
  state->status.assign(schema.entries.size(), LogStatus::running);
  state->warnings = storage_warnings(lock);
  reserve(state->rows, schema);
  state->file = as_write_error([&] { return start_file(state->path, schema, header, LogTables()); });
  return RunLog(std::move(state));
}

RunLog RunLog::resume(const RunLock& lock, int64_t last_step, const LogSchema& schema, int64_t last_evaluation) {
  auto state = std::make_unique<State>();
  state->path = path_in(lock.directory());
  LogContents old = read_log(state->path);
  if (old.schema != schema) {
    throw LogError("cannot resume log '" + state->path +
                   "': it was written with other layers, heads, kinds, lengths or positions than this run has");
  }
  cut_after(old.tables, last_step);
  cut_after(old.tables.eval, last_evaluation);
  state->schema = schema;
  state->status.assign(schema.entries.size(), LogStatus::running);
  state->warnings = storage_warnings(lock);
  if (!old.tables.train.step.empty()) state->last_step = old.tables.train.step.back();
  reserve(state->rows, schema);
  state->file = as_write_error([&] { return start_file(state->path, schema, old.header, old.tables); });
  return RunLog(std::move(state));
}

RunLog::~RunLog() {
  if (!state_ || !state_->writable()) return;
  try {
    std::replace(state_->status.begin(), state_->status.end(), LogStatus::running, LogStatus::failed);
    state_->write_rows();
    state_->file->write_status(state_->status);
    state_->file->close();
  } catch (const std::exception&) {
    state_->failed = true;  // what was flushed stays; a destructor cannot say more
  }
}

template <typename F>
void RunLog::guarded(F&& f) {
  if (!state_->writable()) return;
  try {
    as_write_error(f);
  } catch (const LogWriteError& error) {
    state_->failed = true;
    clear(state_->rows);
    throw LogWriteError(std::string(error.what()) + "; rows flushed before are safe, the log takes no more");
  }
}

template <typename Table, typename Append>
void RunLog::append_row(Table& table, int64_t step, Append&& append) {
  if (!state_->writable()) return;
  if (table.step.size() == table.step.capacity()) flush();
  append();
  table.step.push_back(step);
}

void RunLog::append(const TrainRow& row) {
  TrainTable& t = state_->rows.train;
  append_row(t, row.step, [&] {
    t.loss.push_back(row.loss);
    t.index_loss.push_back(row.index_loss);
    t.lr.push_back(row.lr);
    t.grad_norm.push_back(row.grad_norm);
    t.param_norm.push_back(row.param_norm);
    t.step_time.push_back(row.step_time);
    t.tokens_per_s.push_back(row.tokens_per_s);
    t.tokens.push_back(row.tokens);
    t.wall_time.push_back(row.wall_time);
  });
}

void RunLog::append(const LayersRow& row) {
  const LogSchema& s = state_->schema;
  const uint64_t size = axis_length(s, LogAxis::layer) * axis_length(s, LogAxis::layer_kind);
  check_row("layers grad_norm", row.grad_norm, size);
  check_row("layers param_norm", row.param_norm, size);
  check_row("layers update_ratio", row.update_ratio, size);
  LayersTable& t = state_->rows.layers;
  append_row(t, row.step, [&] {
    put(t.grad_norm, row.grad_norm);
    put(t.param_norm, row.param_norm);
    put(t.update_ratio, row.update_ratio);
  });
}

void RunLog::append(const StemRow& row) {
  check_row("stem grad_norm", row.grad_norm, axis_length(state_->schema, LogAxis::stem_kind));
  StemTable& t = state_->rows.stem;
  append_row(t, row.step, [&] { put(t.grad_norm, row.grad_norm); });
}

void RunLog::append(const ResidualRow& row) {
  const uint64_t size = axis_length(state_->schema, LogAxis::depth);
  check_row("residual grad_norm", row.grad_norm, size);
  check_row("residual rms", row.rms, size);
  ResidualTable& t = state_->rows.residual;
  append_row(t, row.step, [&] {
    put(t.grad_norm, row.grad_norm);
    put(t.rms, row.rms);
  });
}

void RunLog::append(const AttentionRow& row) {
  const LogSchema& s = state_->schema;
  const uint64_t size = axis_length(s, LogAxis::layer) * axis_length(s, LogAxis::head);
  check_row("attention entropy", row.entropy, size);
  check_row("attention max_logit", row.max_logit, size);
  AttentionTable& t = state_->rows.attention;
  append_row(t, row.step, [&] {
    put(t.entropy, row.entropy);
    put(t.max_logit, row.max_logit);
  });
}

void RunLog::append(const EvalRow& row) {
  const LogSchema& s = state_->schema;
  const uint64_t lengths = axis_length(s, LogAxis::length);
  check_row("eval loss", row.loss, lengths);
  check_row("eval accuracy", row.accuracy, s.task ? lengths : 0);
  check_row("eval exact_match", row.exact_match, s.task ? lengths : 0);
  check_row("eval loss_by_position", row.loss_by_position, lengths * axis_length(s, LogAxis::position));
  EvalTable& t = state_->rows.eval;
  append_row(t, row.step, [&] {
    put(t.loss, row.loss);
    put(t.accuracy, row.accuracy);
    put(t.exact_match, row.exact_match);
    put(t.loss_by_position, row.loss_by_position);
  });
}

void RunLog::flush() {
  guarded([&] { state_->write_rows(); });
}

void RunLog::flush_if_due() {
  if (std::chrono::steady_clock::now() - state_->last_flush >= kFlushInterval) flush();
}

void RunLog::sync() {
  guarded([&] {
    state_->write_rows();
    state_->file->sync();
  });
}

void RunLog::set_status(LogStatus status, std::size_t entry) {
  state_->status.at(entry) = status;
  guarded([&] {
    state_->write_rows();
    state_->file->write_status(state_->status);
  });
}

void RunLog::finish(LogStatus status) {
  std::replace(state_->status.begin(), state_->status.end(), LogStatus::running, status);
  if (!state_->writable()) return;
  guarded([&] {
    state_->write_rows();
    state_->file->write_status(state_->status);
    state_->file->sync();
    state_->file->close();
  });
  state_->file.reset();
  try {
    const LogContents log = read_log(state_->path);
    write_log(state_->path, log.schema, log.header, log.status, log.tables);
  } catch (const std::exception& error) {
    state_->warnings.push_back("the log is complete but was not compressed: " + std::string(error.what()));
  }
}

int64_t RunLog::last_step() const {
  return state_->last_step;
}
std::vector<std::string> RunLog::take_warnings() {
  return std::exchange(state_->warnings, {});
}
bool RunLog::failed() const {
  return state_->failed;
}

}  // namespace ropewalk
