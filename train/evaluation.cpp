#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "data/score.h"
#include "data/windows.h"
#include "framework/error.h"
#include "framework/ops/linear_cross_entropy.h"
#include "framework/ops/slice.h"
#include "train/greedy.h"

namespace ropewalk {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRowsAtOnce = 1024;  ///< tokens of a pass
constexpr int64_t kMostBuckets = 64;
constexpr int64_t kMostProblems = 1'000'000;  ///< a length; each is listed in memory before it runs

int64_t bucket_width(int64_t longest) {
  return (longest + kMostBuckets - 1) / kMostBuckets;
}

}  // namespace

std::vector<int64_t> position_buckets(int64_t longest) {
  std::vector<int64_t> first;
  for (int64_t p = 0; p < longest; p += bucket_width(longest)) first.push_back(p);
  return first;
}

int64_t evaluated_at_once(int64_t length) {
  return std::max<int64_t>(1, kRowsAtOnce / length);
}

struct Evaluator::Worker {
  Workspace workspace;
  ModelBatch batch;
  std::vector<float> losses;
  std::vector<int32_t> predicted;
};

/// Some windows of one length that go through the model together.
struct Evaluator::Job {
  std::size_t length_index = 0;
  SequenceShape shape;          ///< of each
  int64_t first_scored = 0;     ///< positions before it count for nothing
  std::vector<Window> windows;  ///< text
  int64_t first_problem = 0;    ///< tasks
  int64_t problems = 0;

  int64_t sequences() const { return problems > 0 ? problems : static_cast<int64_t>(windows.size()); }
};

struct Evaluator::Sums {
  double loss = 0;
  int64_t tokens = 0;
  AnswerScore answers;
  std::vector<double> bucket_loss;
  std::vector<int64_t> bucket_tokens;
};

Evaluator::Evaluator(const Config& config, const Dataset& dataset, Workers& workers)
    : config_(config), dataset_(dataset), workers_(workers) {
  positions_ = position_buckets(longest_evaluation_shape(config).length);
  for (int64_t i = 0; i < workers.count(); ++i) worker_state_.push_back(std::make_unique<Worker>());
}

Evaluator::~Evaluator() = default;

std::size_t Evaluator::arena_bytes() const {
  std::size_t total = 0;
  for (const auto& worker : worker_state_) total += worker->workspace.arena.held_bytes();
  return total;
}

SequenceShape Evaluator::shape_of(std::size_t length_index) const {
  return evaluation_shape(config_, config_.eval.lengths[length_index]);
}

void Evaluator::check() const {
  for (std::size_t i = 0; i < config_.eval.lengths.size(); ++i) {
    if (is_task()) {
      const int64_t problems = problems_of(i);
      require(problems <= kMostProblems, "eval.tokens = {} is {} problems of length {}; at most {} are scored a length",
              config_.eval.tokens, problems, config_.eval.lengths[i], kMostProblems);
    } else {
      std::vector<Job> jobs;
      text_jobs(i, jobs);
      require(scores_a_token(jobs),
              "evaluation at length {} has nothing to predict: no token that it scores is masked; raise eval.tokens, "
              "eval.tail or data.mask_probability",
              config_.eval.lengths[i]);
    }
  }
}

bool Evaluator::scores_a_token(const std::vector<Job>& jobs) const {
  ModelBatch batch;
  return std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) {
    fill(job, batch);
    return batch.counted() > 0;
  });
}

int64_t Evaluator::problems_of(std::size_t length_index) const {
  ModelBatch one;
  one.resize(1, shape_of(length_index));
  one.fill_evaluation(*dataset_.task(), config_.eval.lengths[length_index], 0);
  return std::max<int64_t>(1, config_.eval.tokens / std::max<int64_t>(1, one.counted()));
}

void Evaluator::text_jobs(std::size_t length_index, std::vector<Job>& jobs) const {
  const EvalConfig& eval = config_.eval;
  const int64_t length = eval.lengths[length_index];
  const WindowRequest request{
      .held_out = dataset_.corpus()->held_out().size, .lengths = eval.lengths, .tokens = eval.tokens};
  std::vector<Window> windows;
  switch (eval.protocol) {
    case Protocol::same_tokens:
      windows = same_tokens_windows(request, length, eval.tail);
      break;
    case Protocol::non_overlapping:
      windows = non_overlapping_windows(request, length);
      break;
    case Protocol::sliding:
      windows = sliding_windows(request, length, eval.stride);
      break;
  }
  const int64_t at_once = evaluated_at_once(length);
  for (const Window& window : windows) {
    const bool fits = !jobs.empty() && jobs.back().length_index == length_index &&
                      jobs.back().first_scored == window.first_scored &&
                      static_cast<int64_t>(jobs.back().windows.size()) < at_once;
    if (!fits)
      jobs.push_back({.length_index = length_index, .shape = {.length = length}, .first_scored = window.first_scored});
    jobs.back().windows.push_back(window);
  }
}

void Evaluator::task_jobs(std::size_t length_index, std::vector<Job>& jobs) const {
  const SequenceShape shape = shape_of(length_index);
  const int64_t problems = problems_of(length_index);
  const int64_t at_once = evaluated_at_once(shape.positions());
  for (int64_t first = 0; first < problems; first += at_once) {
    jobs.push_back({.length_index = length_index,
                    .shape = shape,
                    .first_problem = first,
                    .problems = std::min(at_once, problems - first)});
  }
}

void Evaluator::fill(const Job& job, ModelBatch& batch) const {
  batch.resize(job.sequences(), job.shape);
  if (is_task()) {
    batch.fill_evaluation(*dataset_.task(), config_.eval.lengths[job.length_index], job.first_problem);
  } else {
    batch.fill_held_out(dataset_, job.windows);
  }
}

void Evaluator::run_job(const Transformer& model, Worker& worker, const Job& job, Sums& sums) const {
  const int64_t count = job.sequences();
  const int64_t scored = job.shape.length - job.first_scored;
  fill(job, worker.batch);
  const BatchPart part = worker.batch.part(0, count);
  Tape tape(worker.workspace, Mode::inference, &model.parameters());
  ForwardPass pass{.tape = tape, .sequences = count, .length = part.length};
  part.encode(model, pass);
  const Var hidden = model.blocks(pass, model.embed(pass, part.tokens));
  const Var counted = job.first_scored > 0 ? last_rows(hidden, scored) : hidden;
  std::vector<int32_t> targets;
  targets.reserve(static_cast<std::size_t>(count * scored));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* row = part.targets + i * part.length;
    targets.insert(targets.end(), row + job.first_scored, row + part.length);
  }
  worker.losses.resize(targets.size());
  worker.predicted.resize(is_task() ? targets.size() : 0);
  const Var weight = model.head_weight(tape);
  linear_token_losses(counted.value(), weight.value(), targets.data(), tape.arena(), worker.losses.data(),
                      is_task() ? worker.predicted.data() : nullptr);
  const int64_t width = positions_.size() > 1 ? positions_[1] : std::max<int64_t>(1, part.length);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    sums.loss += static_cast<double>(worker.losses[i]);
    ++sums.tokens;
    const int64_t position = job.first_scored + static_cast<int64_t>(i) % scored;
    const auto bucket = static_cast<std::size_t>(position / width);
    sums.bucket_loss[bucket] += static_cast<double>(worker.losses[i]);
    ++sums.bucket_tokens[bucket];
  }
  if (!is_task()) return;
  sums.answers += score_answers(worker.predicted, targets, scored);
}

void Evaluator::decode(Transformer& model, std::span<const Job> jobs, std::span<Sums> sums) const {
  // As many jobs side by side as there are threads, in step: the model has tables for one length at a time.
  const auto at_once = static_cast<std::size_t>(workers_.count());
  for (std::size_t first = 0; first < jobs.size(); first += at_once) {
    const std::span<const Job> group = jobs.subspan(first, std::min(at_once, jobs.size() - first));
    std::vector<BatchPart> parts;
    std::vector<GreedyAnswers> answers;
    for (std::size_t i = 0; i < group.size(); ++i) {
      ModelBatch& batch = worker_state_[i]->batch;
      fill(group[i], batch);
      parts.push_back(batch.part(0, group[i].sequences()));
      answers.emplace_back(model, parts[i], parts[i].length);
    }
    const auto step = [&](int64_t worker, int64_t i) {
      GreedyAnswers& mine = answers[static_cast<std::size_t>(i)];
      if (!mine.done()) mine.step(worker_state_[static_cast<std::size_t>(worker)]->workspace);
    };
    const auto all_done = [&] {
      return std::all_of(answers.begin(), answers.end(), [](const GreedyAnswers& a) { return a.done(); });
    };
    for (int64_t length = 1; !all_done(); ++length) {
      model.prepare(length, {.capacity = parts.front().length});
      workers_.run(static_cast<int64_t>(group.size()), step);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::span targets(parts[i].targets, answers[i].tokens().size());
      sums[first + i].answers.exact = score_answers(answers[i].tokens(), targets, parts[i].length).exact;
    }
  }
}

LengthScores Evaluator::run(Transformer& model) {
  const EvalConfig& eval = config_.eval;
  LengthScores scores;
  scores.protocol = protocol_name(config_);
  scores.lengths = eval.lengths;
  scores.loss_by_position.assign(eval.lengths.size() * positions_.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < eval.lengths.size(); ++i) {
    const SequenceShape shape = shape_of(i);
    const int64_t greatest = model.greatest_length();
    if (greatest > 0 && std::max(shape.source, shape.length) > greatest) {
      scores.loss.push_back(kNaN);
      scores.accuracy.push_back(kNaN);
      scores.exact_match.push_back(kNaN);
      scores.scored_tokens.push_back(0);
      scores.notes.push_back(
          fmt::format("length {}: the model has positions for {} ({})", eval.lengths[i], greatest, model.limited_by()));
      continue;
    }
    std::vector<Job> jobs;
    if (is_task()) {
      task_jobs(i, jobs);
    } else {
      text_jobs(i, jobs);
    }
    prepare(model, shape);
    // One set of sums a job, added in the order of the jobs: the same result for any number of threads.
    std::vector<Sums> sums(jobs.size());
    const auto carry = [&](int64_t worker, int64_t j) {
      Sums& mine = sums[static_cast<std::size_t>(j)];
      mine.bucket_loss.assign(positions_.size(), 0.0);
      mine.bucket_tokens.assign(positions_.size(), 0);
      run_job(model, *worker_state_[static_cast<std::size_t>(worker)], jobs[static_cast<std::size_t>(j)], mine);
    };
    workers_.run(static_cast<int64_t>(jobs.size()), carry);
    if (has_pairs()) decode(model, jobs, sums);
    Sums total{.bucket_loss = std::vector<double>(positions_.size()),
               .bucket_tokens = std::vector<int64_t>(positions_.size())};
    for (const Sums& part : sums) {
      total.loss += part.loss;
      total.tokens += part.tokens;
      total.answers += part.answers;
      for (std::size_t b = 0; b < positions_.size(); ++b) {
        total.bucket_loss[b] += part.bucket_loss[b];
        total.bucket_tokens[b] += part.bucket_tokens[b];
      }
    }
    require(total.tokens > 0, "evaluation at length {} scores no token", eval.lengths[i]);
    scores.loss.push_back(total.loss / static_cast<double>(total.tokens));
    scores.accuracy.push_back(total.answers.token_accuracy());
    scores.exact_match.push_back(total.answers.exact_match());
    scores.scored_tokens.push_back(total.tokens);
    for (std::size_t b = 0; b < positions_.size(); ++b) {
      if (total.bucket_tokens[b] == 0) continue;
      scores.loss_by_position[i * positions_.size() + b] =
          static_cast<float>(total.bucket_loss[b] / static_cast<double>(total.bucket_tokens[b]));
    }
  }
  if (!is_task()) {
    scores.accuracy.clear();
    scores.exact_match.clear();
  }
  return scores;
}

}  // namespace ropewalk
