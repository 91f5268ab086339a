#include "train/train_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "framework/message.h"
#include "layers/indexer.h"
#include "optim/norms.h"
#include "train/config_error.h"
#include "train/durable_file.h"
#include "train/evaluation.h"
#include "train/events.h"
#include "train/log_layout.h"
#include "train/parameter_keys.h"
#include "train/progress.h"
#include "train/run_directory.h"
#include "train/run_log.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/signals.h"
#include "train/summary.h"
#include "train/text.h"
#include "train/trainer.h"
#include "train/warnings.h"
#include "train/weights_file.h"

namespace ropewalk {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool due(int64_t step, int64_t every, int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

/// What a run keeps open while it goes on.
struct Files {
  std::string directory;
  RunLock lock;
  EventLog events;
  RunLog log;
};

/// Rows in the shapes of the log, their memory reserved once.
class RowWriter {
 public:
  RowWriter(const Config& config, const LogLayout& layout)
      : layout_(layout),
        layers_(3, std::vector<float>(layout.cells())),
        stem_(layout.stem_kinds.size()),
        depths_(2, std::vector<float>(static_cast<std::size_t>(config.model.n_layers + 1))),
        heads_(2, std::vector<float>(static_cast<std::size_t>(config.model.n_layers * config.model.n_heads))) {}

  void layers(RunLog& log, const StepResult& result) {
    layer_norms(layout_, result.squared_gradients, layers_[0]);
    const bool norms = !result.squared_values.empty();
    if (norms) {
      layer_norms(layout_, result.squared_values, layers_[1]);
      layer_norms(layout_, result.squared_updates, layers_[2]);
      for (std::size_t i = 0; i < layers_[2].size(); ++i) layers_[2][i] /= layers_[1][i];
    } else {
      for (std::size_t i : {1u, 2u}) std::fill(layers_[i].begin(), layers_[i].end(), std::nanf(""));
    }
    log.append(LayersRow{result.step, layers_[0], layers_[1], layers_[2]});
    stem_norms(layout_, result.squared_gradients, stem_);
    log.append(StemRow{result.step, stem_});
    if (result.residual_squared_gradients.empty()) return;
    for (std::size_t i = 0; i < depths_[0].size(); ++i) {
      depths_[0][i] = static_cast<float>(std::sqrt(result.residual_squared_gradients[i]));
      depths_[1][i] = static_cast<float>(std::sqrt(result.residual_mean_squares[i]));
    }
    log.append(ResidualRow{result.step, depths_[0], depths_[1]});
  }

  void attention(RunLog& log, const StepResult& result) {
    for (std::size_t i = 0; i < heads_[0].size(); ++i) {
      heads_[0][i] = static_cast<float>(result.entropy[i]);
      heads_[1][i] = static_cast<float>(result.max_logit[i]);
    }
    log.append(AttentionRow{result.step, heads_[0], heads_[1]});
  }

 private:
  const LogLayout& layout_;
  std::vector<std::vector<float>> layers_;
  std::vector<float> stem_;
  std::vector<std::vector<float>> depths_;
  std::vector<std::vector<float>> heads_;
};

std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

LogSchema make_schema(const Config& config, const LogLayout& layout, const Evaluator& evaluator) {
  return {.entries = {config.train.seed},
          .n_layers = config.model.n_layers,
          .n_heads = config.model.n_heads,
          .layer_kinds = layout.layer_kinds,
          .stem_kinds = layout.stem_kinds,
          .eval_lengths = evaluator.lengths(),
          .positions = evaluator.positions(),
          .task = is_task(config),
          .eval_protocol = protocol_name(config),
          .train_length = trained_length(config)};
}

/// Keys that may differ between a run and its resumption; all others fix what the run is.
constexpr std::array<std::string_view, 5> kMayChange = {"train.steps", "train.threads", "train.checkpoint_every",
                                                        "train.keep_checkpoints", "train.on_divergence"};

void check_same_run(const Config& now, const Config& before, const std::string& directory) {
  const std::vector<std::string> sections = {"model", "position", "attention", "data", "eval", "log", "train", "optim"};
  std::vector<std::string> errors;
  for (const KeyDifference& difference : differing_keys(now, before, sections)) {
    if (std::find(kMayChange.begin(), kMayChange.end(), difference.key) != kMayChange.end()) continue;
    errors.push_back(fmt::format("command line: error: {}; {} was begun with the second and cannot change it",
                                 difference.text, directory));
  }
  if (!errors.empty()) throw ConfigError(errors);
}

/// Sparse training begins with a dense model, as published: its indexers are drawn beside parameters that are there.
bool adds_indexers(const Config& now, const Config& trained) {
  return now.attention.pattern == AttentionPattern::top_k && trained.attention.pattern == AttentionPattern::dense;
}

void take_indexers(const Config& now, Config& trained) {
  trained.attention.pattern = now.attention.pattern;
  trained.attention.index_heads = now.attention.index_heads;
  trained.attention.index_dim = now.attention.index_dim;
}

/// Can the parameters that this run begins with be its own? A run that has begun is not asked again: where it came from
/// may be gone. Whether the tensors of a file are those of the model, load_weights() finds.
void check_beginning(const TrainRequest& request) {
  const Config& config = request.config.config;
  const std::string& from = config.train.from;
  if (from.empty() || request.resume) return;
  const std::string origin = request.config.origin("train.from").text();
  const bool is_file = is_weights_file(from);
  if (!is_file && !std::filesystem::exists(config_in(from))) {
    throw ConfigError({fmt::format("{}: error: train.from = {}{}", origin, from, kNothingToBeginWith)});
  }
  Config trained;
  if (!is_file) {
    trained = load_config(config_in(from), {}).config;
  } else if (const WeightsHeader header = read_weights_header(from); header.config) {
    trained = *header.config;
    trained.train.dtype = config.train.dtype;  // what a file holds is converted
  } else {
    return;
  }
  std::vector<std::string> errors;
  if (adds_indexers(config, trained)) take_indexers(config, trained);
  for (const std::string& conflict : parameter_conflicts(config, trained)) {
    errors.push_back(fmt::format("{}: error: {}; the parameters of train.from = {} were made for the second", origin,
                                 conflict, from));
  }
  if (!errors.empty()) throw ConfigError(errors);
}

/// The vocabulary that the parameters at hand were trained with: that of the run itself or of what it begins with.
std::optional<Tokenizer> known_tokenizer(const TrainRequest& request) {
  const std::string& from = request.config.config.train.from;
  if (from.empty()) return {};
  const std::string own = vocabulary_in(request.directory);
  if (request.resume && std::filesystem::exists(own)) return load_tokenizer(own);
  if (is_weights_file(from)) return read_weights_header(from).vocabulary;
  const std::string file = vocabulary_in(from);
  return std::filesystem::exists(file) ? std::optional(load_tokenizer(file)) : std::nullopt;
}

class Run {
 public:
  Run(const TrainRequest& request, RunSetup setup)
      : request_(request),
        setup_(std::move(setup)),
        config_(setup_.config),
        trainer_(config_, *setup_.model, *setup_.dataset, *setup_.workers),
        evaluator_(config_, *setup_.dataset, *setup_.workers),
        layout_(make_log_layout(setup_.model->parameters(), config_.model.n_layers)),
        rows_(config_, layout_),
        config_text_(print_config(request.config, false)) {}

  TrainOutcome go() {
    SignalGuard signals;
    open();
    Progress progress(state_.step, config_.train.steps);
    show_log_warnings(progress);
    announce(progress);
    TrainOutcome outcome{.status = LogStatus::finished, .directory = files_->directory};
    try {
      summarize(LogStatus::running);
      outcome.status = loop(progress);
      outcome.signal = outcome.status == LogStatus::interrupted ? SignalGuard::received() : 0;
      files_->log.finish(outcome.status);
      show_log_warnings(progress);
      summarize(outcome.status);
    } catch (const std::exception& e) {
      give_up(e.what());
    }
    files_->events.append(to_string(outcome.status), state_.step);
    return outcome;
  }

 private:
  void show_log_warnings(Progress& progress) {
    for (const std::string& warning : files_->log.take_warnings()) progress.say(warning_text(warning));
  }

  void summarize(LogStatus status, const std::string& error = "") const {
    write_run_summary(files_->directory, config_, setup_.model->parameters().elements(), status, state_,
                      evaluator_.lengths(), static_cast<double>(state_.tokens) / std::max(state_.wall_time, 1e-9),
                      error);
  }

  /// Leaves the files of a run that failed in such order as the failure allows, and throws. No checkpoint: where the
  /// log could not be written it would be ahead of it, and a run that resumed from it would leave a gap there.
  [[noreturn]] void give_up(const std::string& reason) {
    std::string later;
    // On a full disk these fail as well; what failed first is what must be said.
    const auto attempt = [&](const auto& record) {
      try {
        record();
      } catch (const std::exception& e) {
        later += fmt::format("; then: {}", e.what());
      }
    };
    files_->events.append("failed", state_.step, {{"reason", reason}});
    attempt([&] { files_->log.finish(LogStatus::failed); });
    attempt([&] { summarize(LogStatus::failed, reason); });
    show_warnings(files_->log.take_warnings());
    // Not by the type of what was thrown: a file that cannot be written is not one that cannot be read.
    fail("training stopped after step {}: {}{}", state_.step, reason, later);
  }

  void open() {
    begin_parameters();
    const bool resume = request_.resume;
    std::string directory = request_.directory;
    if (!resume) {
      if (directory.empty()) {
        directory = create_run_directory("runs", request_.name);
      } else {
        use_run_directory(directory);
      }
    }
    RunLock lock(directory);
    state_.data_fingerprint = setup_.dataset->fingerprint();
    const LogSchema schema = make_schema(config_, layout_, evaluator_);
    if (resume) {
      LatestCheckpoint latest = latest_checkpoint(checkpoints_in(directory));
      show_warnings(latest.warnings);
      refuse_lost_checkpoints(directory, latest);
      if (latest.checkpoint) {
        check_same_run(config_of(*latest.checkpoint), directory);
        state_ = load_state(*latest.checkpoint, *setup_.model, trainer_.optimizer());
        require(state_.data_fingerprint == setup_.dataset->fingerprint(),
                "the data of {} are no longer what the run was trained on ({}); bring them back, or start a new run",
                directory, setup_.dataset->describe());
      } else if (const std::string before = config_in(directory); std::filesystem::exists(before)) {
        check_same_run(load_config(before, {}).config, directory);
        message("ropewalk: {} stopped before its first checkpoint; it starts over\n", directory);
      }
      write_configuration(directory);
      EventLog events(events_in(directory));
      events.append("resumed", state_.step);
      const bool logged = std::filesystem::exists(RunLog::path_in(directory));
      RunLog log = logged ? RunLog::resume(lock, state_.step, schema, state_.evaluated_step)
                          : RunLog::create(lock, schema, header(directory));
      files_.emplace(Files{directory, std::move(lock), std::move(events), std::move(log)});
    } else {
      write_configuration(directory);
      EventLog events(events_in(directory));
      nlohmann::json origin = nlohmann::json::object();
      if (!config_.train.from.empty()) origin["from"] = config_.train.from;
      if (state_.from_step >= 0) origin["from_step"] = state_.from_step;
      events.append("started", 0, origin);
      RunLog log = RunLog::create(lock, schema, header(directory));
      files_.emplace(Files{directory, std::move(lock), std::move(events), std::move(log)});
    }
  }

  /// Drawn, or those of another run or a file; a checkpoint of this one then replaces them.
  void begin_parameters() {
    if (config_.train.from.empty()) return setup_.model->initialize(static_cast<uint64_t>(config_.train.seed));
    if (request_.resume && latest_checkpoint(checkpoints_in(request_.directory)).checkpoint) return;
    const std::string& from = config_.train.from;
    if (is_weights_file(from)) {
      // Where a sparse model begins with a dense one, its indexers stay as they are drawn.
      setup_.model->initialize(static_cast<uint64_t>(config_.train.seed));
      load_weights(from, config_, *setup_.model);
      state_.from_step = read_weights_header(from).step.value_or(-1);
      return;
    }
    const Checkpoint begun = require_checkpoint(from);
    if (adds_indexers(request_.config.config, load_config(config_in(from), {}).config)) {
      setup_.model->initialize(static_cast<uint64_t>(config_.train.seed));
      load_parameters(begun, *setup_.model, is_index_parameter);
    } else {
      load_parameters(begun, *setup_.model);
    }
    state_.from_step = begun.step;
  }

  /// Starting over would throw away the log of what was trained; that is right only where no checkpoint ever was.
  static void refuse_lost_checkpoints(const std::string& directory, const LatestCheckpoint& latest) {
    if (latest.checkpoint) return;
    bool written = !latest.warnings.empty();
    const std::string events = events_in(directory);
    if (std::filesystem::exists(events)) {
      for (const nlohmann::json& event : read_events(events))
        written = written || event.value("kind", "") == "checkpoint";
    }
    if (!written) return;
    throw CheckpointError(
        fmt::format("{}: no checkpoint is whole, so the run cannot go on; its log is kept as it is. Start a new run "
                    "from its config.ini",
                    checkpoints_in(directory)));
  }

  /// What the run is, where a start that was killed early has not left it already.
  void write_configuration(const std::string& directory) const {
    const std::string file = config_in(directory);
    if (!std::filesystem::exists(file)) write_file_durably(file, print_config(request_.config, true));
    const Tokenizer& tokenizer = setup_.dataset->tokenizer();
    const std::string vocabulary = vocabulary_in(directory);
    if (tokenizer.kind != Tokenizer::Kind::chars || std::filesystem::exists(vocabulary)) return;
    write_file_durably(vocabulary, tokenizer_text(tokenizer));
  }

  Config config_of(const Checkpoint& checkpoint) const {
    const auto text = checkpoint.file.metadata().find("config");
    if (text == checkpoint.file.metadata().end()) {
      throw CheckpointError(checkpoint.file.path() + ": holds no configuration");
    }
    return parse_config_text(text->second, checkpoint.file.path());
  }

  void check_same_run(const Config& before, const std::string& directory) const {
    ropewalk::check_same_run(request_.config.config, before, directory);
  }

  LogHeader header(const std::string& directory) const {
    return make_log_header(directory, request_.config, request_.command_line);
  }

  void announce(Progress& progress) const {
    progress.say(fmt::format("{}: {} parameters, {} steps of {} tokens{}", files_->directory,
                             setup_.model->parameters().elements(), config_.train.steps,
                             config_.train.batch_size * config_.train.accumulate * training_shape(config_).positions(),
                             state_.step > 0 ? fmt::format(", from step {}", state_.step) : ""));
  }

  LogStatus loop(Progress& progress) {
    const int64_t last = config_.train.steps;
    if (state_.step == last && state_.evaluated_step != last) {  // stopped during its last evaluation
      evaluate(progress);
      checkpoint();
    }
    while (state_.step < last) {
      const int64_t step = state_.step + 1;
      const bool layers = config_.log.layers_every > 0 && (step == 1 || due(step, config_.log.layers_every, last));
      const bool attention =
          config_.log.attention_every > 0 && (step == 1 || due(step, config_.log.attention_every, last));
      const bool row = step == 1 || due(step, config_.log.every, last);
      const Clock::time_point start = Clock::now();
      const StepResult result =
          trainer_.step(step, {.norms = row || layers, .residuals = layers, .attention = attention});
      const double step_time = seconds_since(start);
      state_.step = step;
      state_.tokens += result.tokens;
      state_.wall_time += step_time;
      state_.train_loss = result.loss;
      state_.ends_diverged = result.divergence.has_value();
      if (row || result.divergence) append_train_row(result, step_time);
      if (layers || result.divergence) rows_.layers(files_->log, result);
      if (attention) rows_.attention(files_->log, result);
      if (result.divergence) {
        report_divergence(progress, *result.divergence);
        if (config_.train.on_divergence == OnDivergence::stop) return LogStatus::diverged;
      }
      progress.update(step, result.loss, result.lr, result.grad_norm, static_cast<double>(result.tokens) / step_time);
      if (step == last) checkpoint();  // the training is done; its evaluation may take a while
      if (due(step, config_.eval.every, last)) evaluate(progress);
      const bool interrupted = SignalGuard::received() != 0 && step < last;
      if (interrupted || due(step, config_.train.checkpoint_every, last)) checkpoint();
      if (interrupted) return LogStatus::interrupted;
      files_->log.flush_if_due();
    }
    return state_.ends_diverged ? LogStatus::diverged : LogStatus::finished;
  }

  void append_train_row(const StepResult& result, double step_time) {
    const double param_norm = result.squared_values.empty() ? std::nan("") : global_norm(result.squared_values);
    files_->log.append(TrainRow{.step = result.step,
                                .loss = static_cast<float>(result.loss),
                                .index_loss = static_cast<float>(result.index_loss),
                                .lr = static_cast<float>(result.lr),
                                .grad_norm = static_cast<float>(result.grad_norm),
                                .param_norm = static_cast<float>(param_norm),
                                .step_time = static_cast<float>(step_time),
                                .tokens_per_s = static_cast<float>(static_cast<double>(result.tokens) / step_time),
                                .tokens = state_.tokens,
                                .wall_time = state_.wall_time});
  }

  void report_divergence(Progress& progress, const Divergence& divergence) {
    const char* where = divergence.in_gradient ? "gradient" : "value";
    const bool first = !state_.divergence;
    if (first) state_.divergence = divergence;
    files_->events.append("diverged", divergence.step, {{"module", divergence.module}, {"where", where}});
    files_->log.flush();
    if (!first) return;
    progress.say(fmt::format("ropewalk: diverged at step {}: the first NaN or infinity is a {} of {}", divergence.step,
                             where, divergence.module));
  }

  void evaluate(Progress& progress) {
    const LengthScores scores = evaluator_.run(*setup_.model);
    EvalRow row{.step = state_.step};
    const std::vector<float> loss = to_floats(scores.loss);
    const std::vector<float> accuracy = to_floats(scores.accuracy);
    const std::vector<float> exact = to_floats(scores.exact_match);
    row.loss = loss;
    row.accuracy = accuracy;
    row.exact_match = exact;
    row.loss_by_position = scores.loss_by_position;
    files_->log.append(row);
    files_->log.flush();
    state_.evaluated_step = state_.step;
    state_.last_loss = scores.loss;
    state_.last_accuracy = scores.accuracy;
    state_.last_exact_match = scores.exact_match;
    if (state_.best_loss.empty()) state_.best_loss = scores.loss;
    for (std::size_t i = 0; i < scores.loss.size(); ++i) {
      if (scores.loss[i] < state_.best_loss[i]) state_.best_loss[i] = scores.loss[i];
    }
    std::string text = fmt::format("step {}: held-out loss", state_.step);
    for (std::size_t i = 0; i < scores.loss.size(); ++i) {
      text += scores.scored_tokens[i] == 0
                  ? fmt::format("  {}: beyond its positions", scores.lengths[i])
                  : fmt::format("  {}: {:.4f}", scores.lengths[i], unsigned_nan(scores.loss[i]));
    }
    progress.say(text);
  }

  void checkpoint() {
    files_->log.sync();
    save_state(files_->directory, *setup_.model, trainer_.optimizer(), state_, config_text_,
               config_.train.keep_checkpoints);
    files_->events.append("checkpoint", state_.step);
  }

  const TrainRequest& request_;
  RunSetup setup_;
  const Config& config_;
  Trainer trainer_;
  Evaluator evaluator_;
  LogLayout layout_;
  RowWriter rows_;
  std::string config_text_;
  std::optional<Files> files_;
  RunState state_;
};

}  // namespace

TrainOutcome train_run(const TrainRequest& request) {
  for (const std::string& warning : request.config.warnings) message("{}\n", warning);
  check_beginning(request);
  const std::optional<Tokenizer> known = known_tokenizer(request);
  return Run(request, set_up(request.config.config, known ? &*known : nullptr)).go();
}

}  // namespace ropewalk
