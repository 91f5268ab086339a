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
  Batch batch;
  std::vector<float> losses;
  std::vector<int32_t> predicted;
};

/// Some windows of one length that go through the model together.
struct Evaluator::Job {
  std::size_t length_index = 0;
  int64_t length = 0;           ///< tokens of a window
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
  const int64_t longest = *std::max_element(config.eval.lengths.begin(), config.eval.lengths.end());
  positions_ = position_buckets(dataset.task() != nullptr ? problem_tokens(*dataset.task(), longest) : longest);
  for (int64_t i = 0; i < workers.count(); ++i) worker_state_.push_back(std::make_unique<Worker>());
}

Evaluator::~Evaluator() = default;

std::size_t Evaluator::arena_bytes() const {
  std::size_t total = 0;
  for (const auto& worker : worker_state_) total += worker->workspace.arena.held_bytes();
  return total;
}

int64_t Evaluator::sequence_length(std::size_t length_index) const {
  const int64_t length = config_.eval.lengths[length_index];
  return dataset_.task() != nullptr ? problem_tokens(*dataset_.task(), length) : length;
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
  Batch one;
  for (const Job& job : jobs) {
    one.resize(1, job.length);
    for (const Window& window : job.windows) {
      dataset_.fill_held_out(window, one.row_tokens(0), one.row_targets(0));
      if (one.counted() > 0) return true;
    }
  }
  return false;
}

int64_t Evaluator::problems_of(std::size_t length_index) const {
  Batch one;
  one.resize(1, sequence_length(length_index));
  fill_evaluation_batch(*dataset_.task(), config_.eval.lengths[length_index], 0, one);
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
    if (!fits) jobs.push_back({.length_index = length_index, .length = length, .first_scored = window.first_scored});
    jobs.back().windows.push_back(window);
  }
}

void Evaluator::task_jobs(std::size_t length_index, std::vector<Job>& jobs) const {
  const int64_t length = sequence_length(length_index);
  const int64_t problems = problems_of(length_index);
  const int64_t at_once = evaluated_at_once(length);
  for (int64_t first = 0; first < problems; first += at_once) {
    jobs.push_back({.length_index = length_index,
                    .length = length,
                    .first_problem = first,
                    .problems = std::min(at_once, problems - first)});
  }
}

void Evaluator::run_job(const Transformer& model, Worker& worker, const Job& job, Sums& sums) const {
  const int64_t count = job.sequences();
  const int64_t scored = job.length - job.first_scored;
  worker.batch.resize(count, job.length);
  if (is_task()) {
    fill_evaluation_batch(*dataset_.task(), config_.eval.lengths[job.length_index], job.first_problem, worker.batch);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      dataset_.fill_held_out(job.windows[static_cast<std::size_t>(i)], worker.batch.row_tokens(i),
                             worker.batch.row_targets(i));
    }
  }
  Tape tape(worker.workspace, Mode::inference, &model.parameters());
  ForwardPass pass{.tape = tape, .sequences = count, .length = job.length};
  const Var hidden = model.blocks(pass, model.embed(pass, worker.batch.tokens.data()));
  const Var counted = job.first_scored > 0 ? last_rows(hidden, scored) : hidden;
  std::vector<int32_t> targets;
  targets.reserve(static_cast<std::size_t>(count * scored));
  for (int64_t i = 0; i < count; ++i) {
    const auto row = worker.batch.row_targets(i).subspan(static_cast<std::size_t>(job.first_scored));
    targets.insert(targets.end(), row.begin(), row.end());
  }
  worker.losses.resize(targets.size());
  worker.predicted.resize(is_task() ? targets.size() : 0);
  const Var weight = model.head_weight(tape);
  linear_token_losses(counted.value(), weight.value(), targets.data(), tape.arena(), worker.losses.data(),
                      is_task() ? worker.predicted.data() : nullptr);
  const int64_t width = positions_.size() > 1 ? positions_[1] : std::max<int64_t>(1, job.length);
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

LengthScores Evaluator::run(Transformer& model) {
  const EvalConfig& eval = config_.eval;
  LengthScores scores;
  scores.protocol = protocol_name(config_);
  scores.lengths = eval.lengths;
  scores.loss_by_position.assign(eval.lengths.size() * positions_.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < eval.lengths.size(); ++i) {
    const int64_t length = sequence_length(i);
    const int64_t greatest = model.greatest_length();
    if (greatest > 0 && length > greatest) {
      scores.loss.push_back(kNaN);
      scores.accuracy.push_back(kNaN);
      scores.exact_match.push_back(kNaN);
      scores.scored_tokens.push_back(0);
      scores.notes.push_back(fmt::format("length {}: beyond its table of {} positions", eval.lengths[i], greatest));
      continue;
    }
    std::vector<Job> jobs;
    if (is_task()) {
      task_jobs(i, jobs);
    } else {
      text_jobs(i, jobs);
    }
    model.prepare(length);
    // One set of sums a job, added in the order of the jobs: the same result for any number of threads.
    std::vector<Sums> sums(jobs.size());
    const auto carry = [&](int64_t worker, int64_t j) {
      Sums& mine = sums[static_cast<std::size_t>(j)];
      mine.bucket_loss.assign(positions_.size(), 0.0);
      mine.bucket_tokens.assign(positions_.size(), 0);
      run_job(model, *worker_state_[static_cast<std::size_t>(worker)], jobs[static_cast<std::size_t>(j)], mine);
    };
    workers_.run(static_cast<int64_t>(jobs.size()), carry);
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
