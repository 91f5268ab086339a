#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>

#include "framework/error.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "layers/indexer.h"
#include "optim/norms.h"
#include "optim/reduce.h"
#include "optim/schedule.h"
#include "train/every_worker.h"

namespace ropewalk {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

void lap(const StepRequest& request, const char* what) {
  if (request.clock != nullptr) request.clock->lap(what, OpClock::Pass::step);
}

void add_to(std::span<double> total, std::span<const double> part) {
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += part[i];
}

}  // namespace

BatchPlan plan_batch(const Config& config) {
  constexpr int64_t kMostLanes = 8;
  constexpr int64_t kLeastPositions = 128;
  constexpr int64_t kPositions = 512;
  const int64_t sequences = config.train.batch_size * config.train.accumulate;
  const int64_t length = training_shape(config).positions();
  BatchPlan plan;
  // Without the product of the two, which may be beyond what an int64 holds.
  const int64_t sequences_of_a_lane = (kLeastPositions + length - 1) / length;
  plan.lanes = std::clamp<int64_t>(sequences / sequences_of_a_lane, 1, kMostLanes);
  const int64_t most = (sequences + plan.lanes - 1) / plan.lanes;
  const int64_t wanted = config.train.micro_batch > 0 ? config.train.micro_batch : kPositions / length;
  plan.micro_batch = std::clamp<int64_t>(wanted, 1, most);
  return plan;
}

/// Sums that a lane leaves for the step; combined in the order of the lanes.
struct Trainer::Lane {
  int64_t first = 0;
  int64_t count = 0;
  double loss = 0;
  double index_loss = 0;
  std::vector<double> residual_gradients, residual_squares, entropy, max_logit;
};

struct Trainer::Worker {
  Workspace workspace;
  GradientBuffer gradients;  ///< of the lane in hand, but for lane 0, which writes into the total
  std::vector<Var> residuals;
  std::vector<Var> index_losses;
};

Trainer::Trainer(const Config& config, Transformer& model, const Dataset& dataset, Workers& workers)
    : config_(config),
      model_(model),
      dataset_(dataset),
      workers_(workers),
      optimizer_(model.parameters(), config.optim),
      sequences_(config.train.batch_size * config.train.accumulate),
      micro_batch_(plan_batch(config).micro_batch),
      shape_(training_shape(config)),
      total_(model.parameters()),
      lanes_(static_cast<std::size_t>(plan_batch(config).lanes)),
      squared_gradients_(model.parameters().size()),
      update_norms_(model.parameters().size()) {
  const auto depths = static_cast<std::size_t>(config.model.n_layers + 1);
  const auto heads = static_cast<std::size_t>(config.model.n_layers * config.model.n_heads);
  residual_gradients_.resize(depths);
  residual_squares_.resize(depths);
  entropy_.resize(heads);
  max_logit_.resize(heads);
  const auto lanes = static_cast<int64_t>(lanes_.size());
  for (int64_t i = 0; i < lanes; ++i) {
    Lane& lane = lanes_[static_cast<std::size_t>(i)];
    lane.first = sequences_ * i / lanes;
    lane.count = sequences_ * (i + 1) / lanes - lane.first;
    lane.residual_gradients.resize(depths);
    lane.residual_squares.resize(depths);
    lane.entropy.resize(heads);
    lane.max_logit.resize(heads);
  }
  for (int64_t i = 0; i < workers.count(); ++i) {
    worker_state_.push_back(std::make_unique<Worker>());
    worker_state_.back()->gradients = GradientBuffer(model.parameters());
    worker_state_.back()->residuals.reserve(depths);
    worker_state_.back()->index_losses.reserve(2 * depths);
  }
  if (has_indexers() && config.attention.index_warmup_steps > 0) {
    for (const Parameter& parameter : model.parameters().all()) {
      frozen_steps_.push_back(is_index_parameter(parameter.name) ? 0 : config.attention.index_warmup_steps);
    }
  }
  batch_.resize(sequences_, shape_);
}

Trainer::~Trainer() = default;

std::size_t Trainer::arena_bytes() const {
  std::size_t total = 0;
  for (const auto& worker : worker_state_) total += worker->workspace.arena.held_bytes();
  return total;
}

void Trainer::fill_batch(int64_t step) {
  batch_.fill_training(dataset_, static_cast<uint64_t>(config_.train.seed), step);
  targets_ = batch_.counted();
  require(targets_ > 0, "step {} has no target tokens; the data leaves nothing to predict", step);
}

ForwardPass Trainer::begin_pass(Tape& tape, const BatchPart& part, int64_t first, int64_t step,
                                std::vector<Var>& index_losses) const {
  index_losses.clear();
  ForwardPass pass{.tape = tape,
                   .sequences = part.sequences,
                   .length = part.length,
                   .dropout = {.rate = config_.model.dropout,
                               .seed = static_cast<uint64_t>(config_.train.seed),
                               .step = static_cast<uint32_t>(step),
                               .first_sequence = static_cast<uint32_t>(first)},
                   .index_training = {.losses = has_indexers() ? &index_losses : nullptr,
                                      .sequences = sequences_,
                                      .warmup = warms_up_indexers(step)}};
  part.encode(model_, pass);
  return pass;
}

Var Trainer::objective(Var loss, std::span<const Var> index_losses, int64_t step) const {
  Var sum = warms_up_indexers(step) ? Var{} : loss;
  for (const Var index_loss : index_losses) sum = sum ? add(sum, index_loss) : index_loss;
  return sum;
}

void Trainer::run_lane(Worker& worker, Lane& lane, GradientBuffer& gradients, int64_t step,
                       const StepRequest& request) {
  lane.loss = lane.index_loss = 0;
  std::fill(lane.residual_gradients.begin(), lane.residual_gradients.end(), 0.0);
  std::fill(lane.residual_squares.begin(), lane.residual_squares.end(), 0.0);
  std::fill(lane.entropy.begin(), lane.entropy.end(), 0.0);
  std::fill(lane.max_logit.begin(), lane.max_logit.end(), kLowest);
  gradients.clear();
  for (int64_t done = 0; done < lane.count; done += micro_batch_) {
    const int64_t first = lane.first + done;
    const BatchPart part = batch_.part(first, std::min(micro_batch_, lane.count - done));
    Tape tape(worker.workspace, Mode::train, &model_.parameters(), &gradients);
    lap(request, "lanes");
    tape.time_ops(request.clock);
    ForwardPass pass = begin_pass(tape, part, first, step, worker.index_losses);
    worker.residuals.clear();
    if (request.residuals) pass.trace.residuals = &worker.residuals;
    if (request.attention) {
      pass.trace.entropy = lane.entropy.data();
      pass.trace.max_logit = lane.max_logit.data();
    }
    const Var loss =
        model_.loss(pass, part.tokens, part.targets, static_cast<double>(targets_), config_.optim.label_smoothing);
    lane.loss += loss.value().at(0);
    for (const Var index_loss : worker.index_losses) lane.index_loss += index_loss.value().at(0);
    tape.backward(objective(loss, worker.index_losses, step));
    for (std::size_t depth = 0; depth < worker.residuals.size(); ++depth) {
      lane.residual_gradients[depth] += squared_norm(tape.gradient_of(worker.residuals[depth]));
      lane.residual_squares[depth] += squared_norm(worker.residuals[depth].value());
    }
  }
  gradients.complete(model_.parameters());
}

void Trainer::warm_up(const StepRequest& request) {
  StepRequest untimed = request;
  untimed.clock = nullptr;
  fill_batch(1);
  prepare(model_, shape_);
  // Once the indexers are warm, attention takes other memory.
  std::vector<int64_t> steps = {1};
  if (warms_up_indexers(1)) steps.push_back(config_.attention.index_warmup_steps + 1);
  const auto by_count = [](const Lane& a, const Lane& b) { return a.count < b.count; };
  const auto [shortest, longest] = std::minmax_element(lanes_.begin(), lanes_.end(), by_count);
  // An arena that has grown becomes one piece when its pass ends, of pages that the next pass is the first to touch.
  for (const int64_t step : steps) {
    for (const Lane& lane : {*longest, *longest, *shortest}) {
      std::vector<Lane> sums(worker_state_.size(), lane);
      on_every_worker(workers_, [&](int64_t w) {
        const auto i = static_cast<std::size_t>(w);
        run_lane(*worker_state_[i], sums[i], worker_state_[i]->gradients, step, untimed);
      });
    }
  }
}

StepResult Trainer::step(int64_t step, const StepRequest& request) {
  if (request.clock != nullptr) {
    require(workers_.count() == 1, "a step whose ops are timed runs on one thread, not on {}", workers_.count());
    request.clock->start();
  }
  fill_batch(step);
  prepare(model_, shape_,
          {.training = TrainingStep{static_cast<uint64_t>(config_.train.seed), static_cast<uint32_t>(step)}});
  lap(request, "data");
  const auto n_lanes = static_cast<int64_t>(lanes_.size());

  // Lanes run at once but are added one after the other; the first lane writes straight into the total.
  std::mutex mutex;
  std::condition_variable turn;
  int64_t added = 0;
  const auto carry_lane = [&](int64_t w, int64_t lane) {
    Worker& worker = *worker_state_[static_cast<std::size_t>(w)];
    GradientBuffer& gradients = lane == 0 ? total_ : worker.gradients;
    std::exception_ptr failure;
    try {
      run_lane(worker, lanes_[static_cast<std::size_t>(lane)], gradients, step, request);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return added == lane; });
    }
    if (lane > 0 && !failure) add_into(total_.flat(), gradients.flat());
    {
      const std::lock_guard lock(mutex);
      ++added;
    }
    turn.notify_all();
    lap(request, "lanes");
    if (failure) std::rethrow_exception(failure);
  };
  workers_.run(n_lanes, carry_lane);

  StepResult result{.step = step, .tokens = sequences_ * shape_.positions()};
  std::fill(residual_gradients_.begin(), residual_gradients_.end(), 0.0);
  std::fill(residual_squares_.begin(), residual_squares_.end(), 0.0);
  std::fill(entropy_.begin(), entropy_.end(), 0.0);
  std::fill(max_logit_.begin(), max_logit_.end(), kLowest);
  double index_loss = 0;
  for (const Lane& lane : lanes_) {
    result.loss += lane.loss;
    index_loss += lane.index_loss;
    add_to(residual_gradients_, lane.residual_gradients);
    add_to(residual_squares_, lane.residual_squares);
    add_to(entropy_, lane.entropy);
    for (std::size_t i = 0; i < max_logit_.size(); ++i) max_logit_[i] = std::max(max_logit_[i], lane.max_logit[i]);
  }
  if (has_indexers()) {
    const int64_t stacks = config_.model.arch == Arch::encoder_decoder ? 2 : 1;
    result.index_loss = index_loss / static_cast<double>(stacks * config_.model.n_layers);
  }
  const auto positions = static_cast<double>(sequences_ * shape_.length);
  for (double& x : residual_squares_) x /= positions * static_cast<double>(config_.model.d_model);
  for (double& x : entropy_) x /= positions;
  squared_norms(model_.parameters(), total_.flat(), squared_gradients_);
  result.grad_norm = global_norm(squared_gradients_);
  result.lr = learning_rate(config_.optim, step, config_.train.steps);
  result.squared_gradients = squared_gradients_;
  if (request.residuals) {
    result.residual_squared_gradients = residual_gradients_;
    result.residual_mean_squares = residual_squares_;
  }
  if (request.attention) {
    result.entropy = entropy_;
    result.max_logit = max_logit_;
  }
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
    result.divergence = find_divergence(step);
    return result;
  }
  optimizer_.step(total_.flat(), clip_factor(result.grad_norm, config_.optim.grad_clip), result.lr, step,
                  request.norms ? &update_norms_ : nullptr, frozen_steps_);
  lap(request, "optimizer");
  if (request.norms) {
    result.squared_values = update_norms_.values;
    result.squared_updates = update_norms_.updates;
  }
  return result;
}

Divergence Trainer::find_divergence(int64_t step) {
  // The parameters are still those of the step, so its passes can be looked at again, one sequence at a time: the
  // earliest module over all of them, values before gradients.
  Divergence found{.step = step, .module = "the sum of the gradients", .in_gradient = true};
  Worker& worker = *worker_state_.front();
  for (const bool want_gradient : {false, true}) {
    for (int64_t i = 0; i < sequences_; ++i) {
      worker.gradients.clear();
      Tape tape(worker.workspace, Mode::train, &model_.parameters(), &worker.gradients);
      const BatchPart part = batch_.part(i, 1);
      ForwardPass pass = begin_pass(tape, part, i, step, worker.index_losses);
      const Var logits = model_.logits(pass, part.tokens);
      tape.enter_module("loss");
      const Var loss =
          cross_entropy(logits, part.targets, static_cast<double>(targets_), config_.optim.label_smoothing);
      tape.retain_gradients();
      const Var start = objective(loss, worker.index_losses, step);
      if (want_gradient) tape.backward(start);
      bool in_gradient = false;
      const char* module = tape.first_nonfinite(in_gradient);
      if (module != nullptr && in_gradient == want_gradient) {
        found.module = module;
        found.in_gradient = in_gradient;
        return found;
      }
    }
  }
  return found;
}

}  // namespace ropewalk
