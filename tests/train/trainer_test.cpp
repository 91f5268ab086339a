#include "train/trainer.h"

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "data/tasks/pairs.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "layers/indexer.h"
#include "optim/norms.h"
#include "tests/support/allocation_counter.h"
#include "train/log_layout.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

constexpr StepRequest kEverything{.norms = true, .residuals = true, .attention = true};

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // the sanitizer's own memory has new pages at any time
#else
constexpr bool kSanitized = false;
#endif

using TrainerTest = TinyTraining;

/// All that some steps leave, in order.
struct History {
  std::vector<double> numbers;
  std::vector<char> parameters, moments;
  bool operator==(const History&) const = default;
};

History history_of(const Config& config, int64_t steps) {
  Training run(config);
  History history;
  const auto keep = [&](std::span<const double> values) {
    EXPECT_FALSE(values.empty());
    history.numbers.insert(history.numbers.end(), values.begin(), values.end());
  };
  for (int64_t step = 1; step <= steps; ++step) {
    const StepResult result = run.trainer.step(step, kEverything);
    EXPECT_FALSE(result.divergence);
    keep(std::vector<double>{result.loss, result.lr, result.grad_norm});
    keep(result.squared_gradients);
    keep(result.squared_values);
    keep(result.squared_updates);
    keep(result.residual_squared_gradients);
    keep(result.residual_mean_squares);
    keep(result.entropy);
    keep(result.max_logit);
  }
  history.parameters = bytes_of(run.parameters().flat_values());
  history.moments = bytes_of(run.trainer.optimizer().second_moment());
  return history;
}

TEST_F(TrainerTest, ThreadsChangeNoBit) {
  const std::vector<std::vector<std::string>> cases = {
      {"train.batch_size=64"},
      {"train.batch_size=1"},
      {"train.batch_size=27", "model.dropout=0.2"},
      {"train.batch_size=33", "train.accumulate=2", "model.dropout=0.1", "position.encoding=t5"},
      {"train.batch_size=50", "train.dtype=f64", "position.encoding=shaw", "model.tie_embeddings=false"},
      {"train.batch_size=40", "position.randomize_to=500"},
      // Several passes a lane.
      {"train.batch_size=26", "train.context_length=200", "model.dropout=0.1", "position.encoding=kerple"},
      {"train.batch_size=30", "data.source=task", "data.task=associative_recall", "data.max_length=6",
       "train.context_length=40", "eval.lengths=4"},
      {"train.batch_size=60", "model.arch=encoder_decoder", "data.source=task", "data.task=reverse",
       "data.max_length=9", "eval.lengths=4", "model.dropout=0.1", "position.encoding=t5"},
      {"train.batch_size=31", "model.arch=encoder", "model.dropout=0.1"}};
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    // Where there is one lane, threads have nothing to change.
    if (overrides.front() != "train.batch_size=1") {
      EXPECT_GE(plan_batch(config(overrides)).lanes, 3);
    }
    std::vector<History> histories;
    for (const int threads : {1, 2, 3}) {
      std::vector<std::string> all = overrides;
      all.push_back("train.threads=" + std::to_string(threads));
      histories.push_back(history_of(config(all), 5));
    }
    EXPECT_TRUE(histories[1] == histories[0]) << "2 threads";
    EXPECT_TRUE(histories[2] == histories[0]) << "3 threads";
  }
}

TEST_F(TrainerTest, RandomizedPositionsAreThoseOfTheStepWhateverTheMicroBatch) {
  for (const char* encoding : {"learned", "sinusoidal", "rope", "alibi", "t5", "shaw", "fire", "xl"}) {
    SCOPED_TRACE(encoding);
    std::vector<std::string> keys = {"position.randomize_to=300", "train.batch_size=12", "train.dtype=f64",
                                     std::string("position.encoding=") + encoding};
    const Config whole = config(keys);
    Training a(whole);
    keys.push_back("train.micro_batch=1");
    Training b(config(keys));
    for (int64_t step = 1; step <= 3; ++step) {
      EXPECT_NEAR(a.trainer.step(step, {}).loss, b.trainer.step(step, {}).loss, 1e-12);
    }
    Transformer& model = *a.setup.model;
    const int64_t length = whole.train.context_length;
    std::vector<int32_t> tokens;
    for (int64_t t = 0; t < length; ++t) tokens.push_back(static_cast<int32_t>(t % model.config().model.vocab_size));
    const auto logits = [&] {
      Workspace workspace;
      Tape tape(workspace, Mode::inference, &model.parameters());
      ForwardPass pass{.tape = tape, .sequences = 1, .length = length};
      return bytes_of(model.logits(pass, tokens.data()).value());
    };
    const auto of_the_step = logits();
    model.prepare(length);
    EXPECT_NE(logits(), of_the_step) << "an evaluation";
    const auto seed = static_cast<uint64_t>(whole.train.seed);
    model.prepare(length, {.training = TrainingStep{seed, 2}});
    EXPECT_NE(logits(), of_the_step) << "another step";
    model.prepare(length, {.training = TrainingStep{seed, 3}});
    EXPECT_EQ(logits(), of_the_step);
  }
}

TEST_F(TrainerTest, OneSeedIsOneRunAndAnotherSeedAnother) {
  const std::vector<std::string> dropout = {"model.dropout=0.1"};
  const History first = history_of(config(dropout), 4);
  EXPECT_TRUE(history_of(config(dropout), 4) == first);
  EXPECT_FALSE(history_of(config({"model.dropout=0.1", "train.seed=2"}), 4).parameters == first.parameters);
  EXPECT_FALSE(history_of(config({"model.dropout=0.2"}), 4).parameters == first.parameters);
}

TEST_F(TrainerTest, AccumulatedBatchesEqualALargerOne) {
  const std::vector<std::vector<std::string>> data = {
      {},
      {"data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=4"},
      {"data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=4", "model.arch=encoder_decoder"}};
  for (const std::vector<std::string>& source : data) {
    std::vector<std::string> whole = source, parts = source;
    whole.insert(whole.end(), {"train.dtype=f64", "train.batch_size=8"});
    parts.insert(parts.end(), {"train.dtype=f64", "train.batch_size=4", "train.accumulate=2"});
    Training a(config(whole)), b(config(parts));
    for (int64_t step = 1; step <= 3; ++step) {
      const StepResult one = a.trainer.step(step, {}), two = b.trainer.step(step, {});
      EXPECT_EQ(one.tokens, two.tokens);
      EXPECT_NEAR(one.loss, two.loss, 1e-12);
      EXPECT_NEAR(one.grad_norm, two.grad_norm, 1e-12 * one.grad_norm);
    }
    const Tensor& x = a.parameters().flat_values();
    const Tensor& y = b.parameters().flat_values();
    for (int64_t i = 0; i < x.elements(); ++i) ASSERT_NEAR(x.at(i), y.at(i), 1e-12);
  }
}

/// The loss and gradient of one step, one sequence after the other: sums over target tokens, then one division. The
/// smoothed loss is that of the targets and, in its share, the mean of those of all tokens as targets.
double direct_gradient(Training& run, const Config& config, std::vector<double>& gradient,
                       std::vector<int64_t>& counts) {
  const int64_t sequences = config.train.batch_size * config.train.accumulate;
  Batch batch;
  batch.resize(1, config.train.context_length);
  Workspace workspace;
  GradientBuffer buffer(run.parameters());
  gradient.assign(static_cast<std::size_t>(run.parameters().flat_elements()), 0.0);
  double loss_sum = 0;
  run.setup.model->prepare(config.train.context_length);
  for (int64_t i = 0; i < sequences; ++i) {
    fill_training_batch(*run.setup.dataset, static_cast<uint64_t>(config.train.seed), 1, i, batch);
    counts.push_back(batch.counted());
    buffer.clear();
    Tape tape(workspace, Mode::train, &run.parameters(), &buffer);
    ForwardPass pass{.tape = tape, .sequences = 1, .length = config.train.context_length};
    const Var logits = run.setup.model->logits(pass, batch.tokens.data());
    Var loss = cross_entropy(logits, batch.targets.data(), 1.0);
    if (const double smoothing = config.optim.label_smoothing; smoothing > 0) {
      const int64_t vocabulary = run.setup.config.model.vocab_size;
      loss = scale(loss, 1 - smoothing);
      for (int32_t token = 0; token < vocabulary; ++token) {
        std::vector<int32_t> all = batch.targets;
        for (int32_t& target : all) target = target < 0 ? target : token;
        const Var other = cross_entropy(logits, all.data(), static_cast<double>(vocabulary));
        loss = add(loss, scale(other, smoothing));
      }
    }
    loss_sum += loss.value().at(0);
    tape.backward(loss);
    buffer.complete(run.parameters());
    for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] += buffer.flat().at(static_cast<int64_t>(j));
  }
  const auto targets = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  for (double& x : gradient) x /= targets;
  return loss_sum / targets;
}

TEST_F(TrainerTest, LossAndGradientAreMeansOverTheTargetsOfTheWholeStep) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"copy", "0"}, {"associative_recall", "0"}, {"copy", "0.1"}};
  for (const auto& [task, smoothing] : cases) {
    const Config c = config({"data.source=task", "data.task=" + task, "data.max_length=7", "train.context_length=48",
                             "eval.lengths=4", "train.dtype=f64", "train.batch_size=5", "train.accumulate=2",
                             "optim.label_smoothing=" + smoothing});
    Training run(c);
    std::vector<double> gradient;
    std::vector<int64_t> counts;
    const double loss = direct_gradient(run, c, gradient, counts);
    ASSERT_NE(*std::min_element(counts.begin(), counts.end()), *std::max_element(counts.begin(), counts.end()))
        << "the sequences must differ in their numbers of targets";
    const StepResult result = run.trainer.step(1, {});
    EXPECT_NEAR(result.loss, loss, 1e-12);
    double whole = 0;
    for (std::size_t p = 0; p < run.parameters().size(); ++p) {
      const Parameter& parameter = run.parameters()[static_cast<int32_t>(p)];
      double square = 0;
      for (int64_t i = 0; i < parameter.elements(); ++i) {
        const double x = gradient[static_cast<std::size_t>(parameter.offset + i)];
        square += x * x;
      }
      EXPECT_NEAR(result.squared_gradients[p], square, 1e-11 * square + 1e-25) << parameter.name;
      whole += square;
    }
    EXPECT_NEAR(result.grad_norm, std::sqrt(whole), 1e-11 * std::sqrt(whole));
  }
}

TEST_F(TrainerTest, APairCountsAsIfItStoodAlone) {
  const Config c = config({"model.arch=encoder_decoder", "data.source=task", "data.task=addition",
                           "data.digit_order=least_significant_first", "data.max_length=5", "eval.lengths=4",
                           "train.dtype=f64", "train.batch_size=30", "train.accumulate=2", "optim.label_smoothing=0.1",
                           "position.encoding=sinusoidal"});
  Training run(c);
  Transformer& model = *run.setup.model;
  const SequenceShape shape = training_shape(c);
  EXPECT_EQ(shape, (SequenceShape{.source = 11, .length = 7}));
  PairBatch pair;
  pair.resize(1, shape.source, shape.length);
  Workspace workspace;
  GradientBuffer buffer(run.parameters());
  std::vector<double> gradient(static_cast<std::size_t>(run.parameters().flat_elements()), 0.0);
  double loss_sum = 0;
  int64_t targets = 0;
  for (int64_t i = 0; i < 60; ++i) {
    // Without the padding that it has beside longer ones.
    const std::vector<int64_t> source_length = {fill_training_pair(*run.setup.dataset->task(), 1, 1, i, pair.row(0))};
    const int64_t length = pair.counted();
    targets += length;
    model.prepare(length);
    model.prepare_source(source_length.front());
    buffer.clear();
    Tape tape(workspace, Mode::train, &run.parameters(), &buffer);
    ForwardPass pass{.tape = tape, .sequences = 1, .length = length};
    model.encode(pass, {.tokens = pair.sources.data(), .length = source_length.front(), .lengths = source_length});
    const Var loss = cross_entropy(model.logits(pass, pair.inputs.data()), pair.targets.data(), 1.0, 0.1);
    loss_sum += loss.value().at(0);
    tape.backward(loss);
    buffer.complete(run.parameters());
    for (std::size_t j = 0; j < gradient.size(); ++j) gradient[j] += buffer.flat().at(static_cast<int64_t>(j));
  }
  ASSERT_LT(targets, 60 * shape.length) << "some must be shorter";
  const StepResult result = run.trainer.step(1, {});
  EXPECT_EQ(result.tokens, 60 * (11 + 7));
  EXPECT_NEAR(result.loss, loss_sum / static_cast<double>(targets), 1e-12);
  for (std::size_t p = 0; p < run.parameters().size(); ++p) {
    const Parameter& parameter = run.parameters()[static_cast<int32_t>(p)];
    double square = 0;
    for (int64_t i = 0; i < parameter.elements(); ++i) {
      square += std::pow(gradient[static_cast<std::size_t>(parameter.offset + i)] / static_cast<double>(targets), 2);
    }
    EXPECT_NEAR(result.squared_gradients[p], square, 1e-11 * square + 1e-25) << parameter.name;
  }
}

TEST_F(TrainerTest, DropoutDoesNotDependOnHowTheStepIsSplit) {
  const std::vector<std::vector<std::string>> cases = {
      {}, {"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.max_length=7", "eval.lengths=4"}};
  for (const std::vector<std::string>& data : cases) {
    std::vector<std::string> overrides = {"model.dropout=0.3", "train.dtype=f64", "train.batch_size=16",
                                          "train.accumulate=2"};
    overrides.insert(overrides.end(), data.begin(), data.end());
    const Config c = config(overrides);
    EXPECT_GT(plan_batch(c).lanes, 1);
    Training run(c);
    ModelBatch batch;
    batch.resize(32, training_shape(c));
    batch.fill_training(*run.setup.dataset, 1, 1);
    const BatchPart part = batch.part(0, 32);
    prepare(*run.setup.model, training_shape(c));
    Workspace workspace;
    GradientBuffer gradients(run.parameters());
    const auto loss_of_the_whole = [&](double rate) {
      Tape tape(workspace, Mode::train, &run.parameters(), &gradients);
      ForwardPass pass{
          .tape = tape, .sequences = 32, .length = part.length, .dropout = {.rate = rate, .seed = 1, .step = 1}};
      part.encode(*run.setup.model, pass);
      const Var logits = run.setup.model->logits(pass, part.tokens);
      return cross_entropy(logits, part.targets, static_cast<double>(batch.counted())).value().at(0);
    };
    const double whole = loss_of_the_whole(0.3);
    EXPECT_GT(std::abs(whole - loss_of_the_whole(0.0)), 1e-6);
    EXPECT_NEAR(run.trainer.step(1, {}).loss, whole, 1e-12);
  }
}

TEST_F(TrainerTest, TheGradientNormIsTheOneBeforeClipping) {
  Training free(config({"optim.grad_clip=0", "optim.eps=1", "optim.weight_decay=0"}));
  Training clipped(config({"optim.grad_clip=1e-4", "optim.eps=1", "optim.weight_decay=0"}));
  const StepResult a = free.trainer.step(1, kEverything), b = clipped.trainer.step(1, kEverything);
  EXPECT_GT(a.grad_norm, 1e-2);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_TRUE(std::equal(a.squared_gradients.begin(), a.squared_gradients.end(), b.squared_gradients.begin()));
  // With a large epsilon the update is about proportional to the clipped gradient.
  const auto sum = [](std::span<const double> x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  EXPECT_GT(sum(b.squared_updates), 0.0);
  EXPECT_LT(std::sqrt(sum(b.squared_updates)), 0.1 * std::sqrt(sum(a.squared_updates)));
}

TEST_F(TrainerTest, SquaresOfTheParametersNormsSumToTheSquareOfTheWhole) {
  Training run(config());
  for (int64_t step = 1; step <= 3; ++step) {
    const StepResult result = run.trainer.step(step, {});
    const double sum = std::accumulate(result.squared_gradients.begin(), result.squared_gradients.end(), 0.0);
    EXPECT_NEAR(sum, result.grad_norm * result.grad_norm, 1e-12 * sum);
  }
}

TEST_F(TrainerTest, NormsOfValuesAndUpdatesAreThoseOfTheStep) {
  Training run(config({"train.dtype=f64"}));
  run.trainer.step(1, {});
  const Tensor before = Tensor::zeros(run.parameters().flat_values().shape, DType::f64);
  std::memcpy(before.bytes, run.parameters().flat_values().bytes, before.size_bytes());
  const StepResult result = run.trainer.step(2, {.norms = true});
  std::vector<double> values(run.parameters().size());
  squared_norms(run.parameters(), run.parameters().flat_values(), values);
  for (std::size_t p = 0; p < values.size(); ++p) {
    const Parameter& parameter = run.parameters()[static_cast<int32_t>(p)];
    EXPECT_NEAR(result.squared_values[p], values[p], 1e-12 * values[p]) << parameter.name;
    double update = 0;
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.elements(); ++i) {
      const double change = run.parameters().flat_values().at(i) - before.at(i);
      update += change * change;
    }
    EXPECT_NEAR(result.squared_updates[p], update, 1e-11 * update) << parameter.name;
  }
  EXPECT_TRUE(run.trainer.step(3, {}).squared_values.empty());
}

TEST_F(TrainerTest, ATrivialTextIsLearned) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "abcd";
  write_text(text_path(), text);
  Training run(config({"train.steps=80", "optim.lr=1e-2", "optim.warmup_steps=5"}));
  const double first = run.trainer.step(1, {}).loss;
  EXPECT_NEAR(first, std::log(256.0), 0.5);
  double last = first;
  for (int64_t step = 2; step <= 80; ++step) last = run.trainer.step(step, {}).loss;
  EXPECT_LT(last, 0.2);
}

const std::vector<std::string> kSparse = {"attention.pattern=top_k", "attention.top_k=4", "attention.index_heads=2",
                                          "attention.index_dim=8"};

std::vector<std::string> sparse_with(std::vector<std::string> more) {
  more.insert(more.end(), kSparse.begin(), kSparse.end());
  return more;
}

/// The bytes of all parameters by name.
std::map<std::string, std::vector<char>> values_of(const ParameterSet& parameters) {
  std::map<std::string, std::vector<char>> out;
  for (const Parameter& p : parameters.all()) out[p.name] = bytes_of(parameters.value(parameters.find(p.name)));
  return out;
}

TEST_F(TrainerTest, TheWarmUpMovesNothingButTheIndexers) {
  const std::vector<std::vector<std::string>> models = {
      {},
      {"attention.kind=mla", "attention.mla_kv_rank=8", "attention.mla_rope_dims=4"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.min_length=7", "data.max_length=9",
       "eval.lengths=7"}};
  for (const std::vector<std::string>& model : models) {
    std::vector<std::string> overrides = sparse_with({"attention.index_warmup_steps=3"});
    overrides.insert(overrides.end(), model.begin(), model.end());
    Training run(config(overrides));
    std::map<std::string, std::vector<char>> before = values_of(run.parameters());
    for (int64_t step = 1; step <= 5; ++step) {
      const StepResult result = run.trainer.step(step, kEverything);
      ASSERT_FALSE(result.divergence);
      EXPECT_GT(result.index_loss, 0);
      const std::map<std::string, std::vector<char>> after = values_of(run.parameters());
      for (std::size_t i = 0; i < run.parameters().size(); ++i) {
        const std::string& name = run.parameters()[static_cast<int32_t>(i)].name;
        const bool learns = step > 3 || is_index_parameter(name);
        EXPECT_EQ(after.at(name) != before.at(name), learns) << name << " in step " << step;
        EXPECT_EQ(result.squared_gradients[i] > 0, learns) << name << " in step " << step;
        EXPECT_EQ(result.squared_updates[i] > 0, learns) << name << " in step " << step;
        const double value = squared_norm(run.parameter(name));
        EXPECT_NEAR(result.squared_values[i], value, 1e-6 * value) << name;
      }
      before = after;
    }
  }
}

TEST_F(TrainerTest, TheLossOfTheWarmUpIsThatOfDenseAttention) {
  Training dense(config());
  Training sparse(config(sparse_with({"attention.index_warmup_steps=1"})));
  const StepResult a = dense.trainer.step(1, {});
  const StepResult b = sparse.trainer.step(1, {});
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_TRUE(std::isnan(a.index_loss));
  EXPECT_NE(a.grad_norm, b.grad_norm);
  // Then it is that of the chosen keys.
  Training at_once(config(kSparse));
  EXPECT_NE(at_once.trainer.step(1, {}).loss, a.loss);
}

TEST_F(TrainerTest, IndexersLearnToForetellTheAttention) {
  for (const char* warmup : {"attention.index_warmup_steps=60", "attention.index_warmup_steps=0"}) {
    Training run(config(sparse_with({warmup, "train.steps=60", "optim.lr=1e-2", "optim.schedule=constant"})));
    // Attention that differs from key to key, which is what there is to foretell.
    for (const char* name : {"blocks.0.attention.query.weight", "blocks.0.attention.key.weight"}) {
      const Tensor weight = run.parameter(name);
      for (int64_t i = 0; i < weight.elements(); ++i) weight.set(i, 20 * weight.at(i));
    }
    double first = 0;
    double last = 0;
    for (int64_t step = 1; step <= 60; ++step) {
      const StepResult result = run.trainer.step(step, {});
      ASSERT_FALSE(result.divergence);
      if (step <= 5) first += result.index_loss;
      if (step > 55) last += result.index_loss;
    }
    EXPECT_LT(last, 0.8 * first) << warmup;
  }
}

TEST_F(TrainerTest, IndexersDoNotDependOnThreadsOrMicroBatches) {
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"train.batch_size=32", "attention.index_warmup_steps=1"});
    return config(sparse_with(more));
  };
  EXPECT_TRUE(history_of(with({"train.threads=1"}), 3) == history_of(with({"train.threads=3"}), 3));
  Training one(with({"train.micro_batch=1"}));
  Training four(with({"train.micro_batch=4"}));
  const StepResult a = one.trainer.step(1, {});
  const StepResult b = four.trainer.step(1, {});
  EXPECT_NEAR(a.index_loss, b.index_loss, 1e-6 * a.index_loss);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * a.grad_norm);
}

TEST_F(TrainerTest, SteadyStepsAllocateNothingAndMeetNoNewPage) {
  const std::vector<std::vector<std::string>> cases = {
      {"model.dropout=0.1"},
      sparse_with({"train.context_length=48", "train.batch_size=32"}),
      sparse_with({"train.context_length=48", "train.batch_size=32", "attention.index_warmup_steps=20",
                   "attention.index_precision=int8", "attention.index_hadamard=true"}),
      {"train.threads=2", "train.batch_size=41", "train.accumulate=2", "position.encoding=t5"},
      // More threads than lanes: some workers have nothing to do in a step, each time other ones.
      {"train.threads=3", "train.batch_size=17"},
      {"train.threads=2", "train.batch_size=4", "model.norm=rmsnorm"},
      {"train.context_length=200", "train.batch_size=30", "model.norm_placement=sandwich", "model.norm=rmsnorm",
       "model.activation=swiglu", "model.qk_norm=true"},
      {"data.source=task", "data.task=addition", "data.max_length=4", "eval.lengths=4", "position.encoding=shaw"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=addition", "data.max_length=4", "eval.lengths=4",
       "model.dropout=0.1", "optim.label_smoothing=0.1"},
      sparse_with({"model.arch=encoder_decoder", "data.source=task", "data.task=addition", "data.max_length=4",
                   "eval.lengths=4"}),
      {"model.arch=encoder"}};
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    const Config c = config(overrides);
    Training run(c);
    const LogLayout layout = make_log_layout(run.parameters(), c.model.n_layers);
    std::vector<float> layers(layout.cells()), stem(layout.stem_kinds.size());
    OpClock clock;
    StepRequest request = kEverything;
    if (c.train.threads == 1) request.clock = &clock;
    const auto step = [&](int64_t number) {
      const StepResult result = run.trainer.step(number, request);
      layer_norms(layout, result.squared_gradients, layers);
      stem_norms(layout, result.squared_gradients, stem);
      return result.loss;
    };
    const auto page_faults = [] {
      rusage usage = {};
      getrusage(RUSAGE_SELF, &usage);
      return usage.ru_minflt;
    };
    run.trainer.warm_up(request);
    step(1);
    const std::size_t held = run.trainer.arena_bytes();
    EXPECT_GT(held, 0U);
    const std::size_t before = testing::allocations();
    const auto faults = page_faults();
    double loss = 0;
    for (int64_t number = 2; number <= 41; ++number) loss += step(number);
    EXPECT_EQ(testing::allocations() - before, 0U);
    EXPECT_EQ(run.trainer.arena_bytes(), held);
    // The system may take a page away now and then; the memory of a worker is hundreds.
    if (!kSanitized) {
      EXPECT_LT(page_faults() - faults, 40);
    }
    EXPECT_TRUE(std::isfinite(loss));
  }
}

TEST_F(TrainerTest, WarmingUpGivesEveryWorkerItsMemoryAndChangesNoResult) {
  Training plain(config({"train.batch_size=4"}));
  Training warm(config({"train.batch_size=4", "train.threads=3"}));
  EXPECT_EQ(warm.trainer.arena_bytes(), 0U);
  warm.trainer.warm_up({});
  for (int64_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(plain.trainer.step(step, {}).loss, warm.trainer.step(step, {}).loss);
  }
  EXPECT_EQ(warm.trainer.arena_bytes(), 3 * plain.trainer.arena_bytes());
}

TEST_F(TrainerTest, AClockGivesTheWholeStepToItsPartsAndChangesNothing) {
  Training plain(config());
  Training timed(config());
  OpClock clock;
  double passed = 0;
  for (int64_t step = 1; step <= 3; ++step) {
    const double loss = plain.trainer.step(step, {}).loss;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(timed.trainer.step(step, {.clock = &clock}).loss, loss);
    passed += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::map<std::string, OpClock::Row> rows;
  double total = 0;
  for (const OpClock::Row& row : clock.rows()) {
    rows[row.op] = row;
    total += row.total();
  }
  EXPECT_GT(total, 0);
  EXPECT_LE(total, passed);
  // 8 sequences in one pass, for 3 steps of 2 layers.
  EXPECT_EQ(rows.at("linear_cross_entropy").laps, 3);
  EXPECT_EQ(rows.at("attention").laps, 3 * 2);
  for (const char* op : {"embedding", "linear", "attention", "linear_cross_entropy"}) {
    EXPECT_GT(rows.at(op).of(OpClock::Pass::forward), 0) << op;
    EXPECT_GT(rows.at(op).of(OpClock::Pass::backward), 0) << op;
    EXPECT_EQ(rows.at(op).of(OpClock::Pass::step), 0) << op;
  }
  for (const char* part : {"data", "lanes", "optimizer"}) {
    EXPECT_GT(rows.at(part).of(OpClock::Pass::step), 0) << part;
    EXPECT_EQ(rows.at(part).of(OpClock::Pass::forward), 0) << part;
  }
  EXPECT_EQ(rows.at("optimizer").laps, 3);
}

TEST_F(TrainerTest, OpsAreTimedOnOneThreadOnly) {
  Training run(config({"train.threads=2"}));
  OpClock clock;
  EXPECT_THROW(run.trainer.step(1, {.clock = &clock}), Error);
}

TEST_F(TrainerTest, TheFirstModuleWithANaNIsNamedAndNothingIsUpdated) {
  Training run(config());
  run.trainer.step(1, {});
  run.parameter("blocks.1.ffn.up.weight").set(3, std::numeric_limits<double>::quiet_NaN());
  const std::vector<char> values = bytes_of(run.parameters().flat_values()),
                          first = bytes_of(run.trainer.optimizer().first_moment()),
                          second = bytes_of(run.trainer.optimizer().second_moment());
  for (int64_t step = 2; step <= 3; ++step) {
    const StepResult result = run.trainer.step(step, kEverything);
    ASSERT_TRUE(result.divergence);
    EXPECT_EQ(result.divergence->module, "blocks.1.ffn");
    EXPECT_FALSE(result.divergence->in_gradient);
    EXPECT_EQ(result.divergence->step, step);
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_TRUE(result.squared_values.empty());
  }
  EXPECT_TRUE(bytes_of(run.parameters().flat_values()) == values);
  EXPECT_TRUE(bytes_of(run.trainer.optimizer().first_moment()) == first);
  EXPECT_TRUE(bytes_of(run.trainer.optimizer().second_moment()) == second);
}

TEST_F(TrainerTest, EachPlaceOfANaNIsNamed) {
  const std::vector<std::pair<std::string, std::string>> places = {
      {"token_embedding.weight", "token_embedding"}, {"blocks.0.attention.value.weight", "blocks.0.attention"},
      {"blocks.0.ffn.down.bias", "blocks.0.ffn"},    {"blocks.1.attention.output.bias", "blocks.1.attention"},
      {"final_norm.weight", "final_norm"},           {"lm_head.weight", "lm_head"}};
  for (const auto& [parameter, module] : places) {
    Training run(config({"model.tie_embeddings=false", "train.threads=2"}));
    fill(run.parameter(parameter), std::numeric_limits<double>::infinity());
    const StepResult result = run.trainer.step(1, {});
    ASSERT_TRUE(result.divergence) << parameter;
    EXPECT_EQ(result.divergence->module, module) << parameter;
    EXPECT_FALSE(result.divergence->in_gradient) << parameter;
  }
}

TEST_F(TrainerTest, EachPlaceOfANaNInAnEncoderAndItsDecoderIsNamed) {
  const std::vector<std::pair<std::string, std::string>> places = {
      {"token_embedding.weight", "encoder.token_embedding"},
      {"encoder.blocks.0.attention.value.weight", "encoder.blocks.0.attention"},
      {"encoder.blocks.1.ffn.down.bias", "encoder.blocks.1.ffn"},
      {"encoder.final_norm.weight", "encoder.final_norm"},
      {"blocks.0.attention.output.bias", "blocks.0.attention"},
      {"blocks.1.cross_attention.value.weight", "blocks.1.cross_attention"},
      {"final_norm.weight", "final_norm"}};
  for (const auto& [parameter, module] : places) {
    Training run(config({"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.max_length=6",
                         "eval.lengths=4", "train.threads=2"}));
    fill(run.parameter(parameter), std::numeric_limits<double>::infinity());
    const StepResult result = run.trainer.step(1, {});
    ASSERT_TRUE(result.divergence) << parameter;
    EXPECT_EQ(result.divergence->module, module) << parameter;
    EXPECT_FALSE(result.divergence->in_gradient) << parameter;
  }
}

TEST_F(TrainerTest, ANaNInATableOfPositionsIsSeen) {
  for (const char* encoding : {"learned", "shaw", "t5"}) {
    for (const char* dtype : {"f32", "f64"}) {
      Training run(config({std::string("position.encoding=") + encoding, std::string("train.dtype=") + dtype}));
      int tables = 0;
      for (const Parameter& parameter : run.parameters().all()) {
        if (parameter.name.find("relative") == std::string::npos &&
            parameter.name.find("position") == std::string::npos)
          continue;
        fill(run.parameter(parameter.name), std::numeric_limits<double>::quiet_NaN());
        ++tables;
      }
      EXPECT_GT(tables, 0) << encoding;
      EXPECT_TRUE(run.trainer.step(1, {}).divergence) << encoding << " in " << dtype;
    }
  }
}

TEST_F(TrainerTest, AnInfinityOfTheBackwardPassAloneIsFound) {
  // All of the residual stream is zero, so each norm multiplies its gradient by 1 / sqrt(eps).
  Training run(config({"model.tie_embeddings=false", "model.norm_eps=2e-38", "position.encoding=none"}));
  fill(run.parameter("token_embedding.weight"), 0.0);
  const StepResult result = run.trainer.step(1, {});
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_FALSE(std::isfinite(result.grad_norm));
  ASSERT_TRUE(result.divergence);
  EXPECT_TRUE(result.divergence->in_gradient);
  EXPECT_TRUE(result.divergence->module.starts_with("blocks.")) << result.divergence->module;
}

TEST_F(TrainerTest, UniformAttentionHasTheEntropyOfItsKeys) {
  const Config c = config({"position.encoding=none", "train.batch_size=5"});
  Training run(c);
  for (const Parameter& parameter : run.parameters().all()) {
    if (parameter.name.find("attention.query") == std::string::npos) continue;
    fill(run.parameter(parameter.name), 0.0);
  }
  const StepResult result = run.trainer.step(1, kEverything);
  double mean = 0;
  for (int64_t i = 1; i <= c.train.context_length; ++i) mean += std::log(static_cast<double>(i));
  mean /= static_cast<double>(c.train.context_length);
  ASSERT_EQ(result.entropy.size(), 4U);
  for (const double entropy : result.entropy) EXPECT_NEAR(entropy, mean, 1e-5);
  for (const double logit : result.max_logit) EXPECT_EQ(logit, 0.0);
}

TEST_F(TrainerTest, TheTracesOfAPairAreThoseOfItsDecoder) {
  const Config c = config({"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.max_length=9",
                           "eval.lengths=4", "position.encoding=none", "train.batch_size=5", "train.dtype=f64"});
  Training run(c);
  for (const Parameter& parameter : run.parameters().all()) {
    if (parameter.name.find(".query") != std::string::npos) fill(run.parameter(parameter.name), 0.0);
  }
  ModelBatch batch;
  batch.resize(5, training_shape(c));
  batch.fill_training(*run.setup.dataset, 1, 1);
  const Tensor table = run.parameter("token_embedding.weight");
  double squares = 0;
  for (int64_t i = 0; i < 5 * 10; ++i) {
    for (int64_t j = 0; j < 16; ++j) squares += std::pow(table.at(batch.part(0, 5).tokens[i] * 16 + j), 2);
  }
  double entropy = 0;
  for (int64_t keys = 1; keys <= 10; ++keys) entropy += std::log(static_cast<double>(keys)) / 10;
  const StepResult result = run.trainer.step(1, kEverything);
  ASSERT_EQ(result.residual_mean_squares.size(), 3U);
  EXPECT_NEAR(result.residual_mean_squares[0], squares / (5 * 10 * 16), 1e-12);
  ASSERT_EQ(result.entropy.size(), 4U);
  for (const double x : result.entropy) EXPECT_NEAR(x, entropy, 1e-12) << "self-attention over up to ten keys";
}

TEST_F(TrainerTest, TheResidualStreamIsMeasuredWhereItEntersTheBlocks) {
  const Config c = config({"position.encoding=none", "train.batch_size=5", "train.dtype=f64"});
  Training run(c);
  Batch batch;
  batch.resize(5, 16);
  fill_training_batch(*run.setup.dataset, 1, 1, 0, batch);
  const Tensor table = run.parameter("token_embedding.weight");
  double squares = 0;
  for (const int32_t token : batch.tokens) {
    for (int64_t j = 0; j < 16; ++j) squares += table.at(token * 16 + j) * table.at(token * 16 + j);
  }
  const StepResult result = run.trainer.step(1, kEverything);
  ASSERT_EQ(result.residual_mean_squares.size(), 3U);
  EXPECT_NEAR(result.residual_mean_squares[0], squares / (5 * 16 * 16), 1e-12);
  for (const double x : result.residual_squared_gradients) EXPECT_GT(x, 0.0);
}

BatchPlan plan(int64_t batch_size, int64_t context_length, int64_t micro_batch = 0) {
  Config config;
  config.train.batch_size = batch_size;
  config.train.context_length = context_length;
  config.train.micro_batch = micro_batch;
  return plan_batch(config);
}

TEST(PlanBatch, FillsTheLanesAndTheCache) {
  EXPECT_EQ(plan(32, 128).lanes, 8);
  EXPECT_EQ(plan(32, 128).micro_batch, 4);
  EXPECT_EQ(plan(512, 64).micro_batch, 8);
  EXPECT_EQ(plan(8, 32).lanes, 2) << "lanes of 32 positions are too small";
  EXPECT_EQ(plan(8, 32).micro_batch, 4);
  EXPECT_EQ(plan(1, 16).lanes, 1);
  EXPECT_EQ(plan(3, 1 << 20).lanes, 3);
  EXPECT_EQ(plan(3, 1 << 20).micro_batch, 1);
}

TEST(PlanBatch, CountsBothHalvesOfAPair) {
  Config config;
  config.model.arch = Arch::encoder_decoder;
  config.data.source = "task";
  config.data.task = "copy";
  config.data.max_length = 31;  // 31 + 32 positions
  config.train.batch_size = 64;
  config.train.context_length = 1000;
  EXPECT_EQ(plan_batch(config).lanes, 8);
  EXPECT_EQ(plan_batch(config).micro_batch, 8);
}

TEST(PlanBatch, TakesTheMicroBatchThatIsAskedForUpToTheLane) {
  EXPECT_EQ(plan(64, 16, 3).micro_batch, 3);
  EXPECT_EQ(plan(64, 16, 100).micro_batch, 8);
}

TEST_F(TrainerTest, TheMicroBatchChangesNothingButRounding) {
  std::vector<double> losses;
  for (const char* micro_batch : {"train.micro_batch=0", "train.micro_batch=1", "train.micro_batch=2"}) {
    Training run(config({"train.batch_size=24", "train.dtype=f64", micro_batch}));
    for (int64_t step = 1; step <= 4; ++step) losses.push_back(run.trainer.step(step, {}).loss);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(losses[i], losses[4 + i], 1e-12);
    EXPECT_NEAR(losses[i], losses[8 + i], 1e-12);
  }
}

}  // namespace
}  // namespace ropewalk
