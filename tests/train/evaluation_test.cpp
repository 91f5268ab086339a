#include "train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "data/error.h"
#include "data/windows.h"
#include "train/greedy.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

using EvaluationTest = TinyTraining;

/// A model whose weights are large enough that lengths and protocols differ in more than the last digits.
struct Evaluated {
  explicit Evaluated(const Config& config) : setup(set_up(config)) {
    setup.model->initialize(3);
    const Tensor& values = setup.model->parameters().flat_values();
    for (int64_t i = 0; i < values.elements(); ++i) values.set(i, 3 * values.at(i));
  }
  LengthScores run() { return Evaluator(setup.config, *setup.dataset, *setup.workers).run(*setup.model); }
  RunSetup setup;
};

/// Logits of one sequence [length, vocab_size], as doubles.
std::vector<double> logits_of(Transformer& model, std::span<const int32_t> tokens) {
  const auto length = static_cast<int64_t>(tokens.size());
  model.prepare(length);
  Workspace workspace;
  Tape tape(workspace, Mode::inference, &model.parameters());
  ForwardPass pass{.tape = tape, .sequences = 1, .length = length};
  const Tensor logits = model.logits(pass, tokens.data()).value();
  std::vector<double> out;
  for (int64_t i = 0; i < logits.elements(); ++i) out.push_back(logits.at(i));
  return out;
}

double cross_entropy_of(std::span<const double> row, int32_t target) {
  const double greatest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double x : row) sum += std::exp(x - greatest);
  return greatest + std::log(sum) - row[static_cast<std::size_t>(target)];
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
  double value() const { return sum / static_cast<double>(count); }
};

TEST_F(EvaluationTest, ThreadsChangeNoBit) {
  const std::vector<std::vector<std::string>> cases = {
      {"eval.protocol=same_tokens"},
      {"eval.protocol=non_overlapping", "position.encoding=alibi"},
      {"eval.protocol=sliding", "eval.stride=5", "position.rope_scaling=dynamic_ntk", "position.rope_factor=2"},
      {"data.source=task", "data.task=sort", "data.max_length=6", "eval.lengths=3,6,12", "model.dropout=0.3"},
      {"model.arch=encoder_decoder", "data.source=task", "data.task=sort", "data.max_length=6", "eval.lengths=3,6,40",
       "position.rope_scaling=dynamic_ntk", "position.rope_factor=2"}};
  for (const std::vector<std::string>& overrides : cases) {
    SCOPED_TRACE(overrides.front());
    std::vector<LengthScores> scores;
    for (const int threads : {1, 3}) {
      std::vector<std::string> all = overrides;
      all.insert(all.end(), {"eval.tokens=1500", "train.threads=" + std::to_string(threads)});
      scores.push_back(Evaluated(config(all)).run());
    }
    EXPECT_EQ(scores[0].loss, scores[1].loss);
    EXPECT_EQ(scores[0].accuracy, scores[1].accuracy);
    EXPECT_EQ(scores[0].exact_match, scores[1].exact_match);
    EXPECT_EQ(scores[0].scored_tokens, scores[1].scored_tokens);
    EXPECT_TRUE(bytes_of(scores[0].loss_by_position) == bytes_of(scores[1].loss_by_position));
  }
}

TEST_F(EvaluationTest, LossIsTheMeanCrossEntropyOfTheProtocolsTokens) {
  for (const char* protocol : {"same_tokens", "non_overlapping", "sliding"}) {
    SCOPED_TRACE(protocol);
    Evaluated run(config({"train.dtype=f64", std::string("eval.protocol=") + protocol, "eval.lengths=16,24,32,90",
                          "eval.tail=6", "eval.stride=7", "model.dropout=0.5"}));
    const LengthScores scores = run.run();
    const EvalConfig& eval = run.setup.config.eval;
    EXPECT_EQ(scores.protocol, protocol);
    EXPECT_EQ(scores.lengths, eval.lengths);
    EXPECT_TRUE(scores.accuracy.empty());
    EXPECT_TRUE(scores.exact_match.empty());
    EXPECT_TRUE(scores.notes.empty());
    const std::vector<int64_t> buckets = position_buckets(90);
    ASSERT_EQ(scores.loss_by_position.size(), 4 * buckets.size());
    const TokenView held_out = run.setup.dataset->corpus()->held_out();
    const WindowRequest request{.held_out = held_out.size, .lengths = eval.lengths, .tokens = eval.tokens};
    for (std::size_t i = 0; i < eval.lengths.size(); ++i) {
      const int64_t length = eval.lengths[i];
      const std::vector<Window> windows =
          eval.protocol == Protocol::same_tokens       ? same_tokens_windows(request, length, eval.tail)
          : eval.protocol == Protocol::non_overlapping ? non_overlapping_windows(request, length)
                                                       : sliding_windows(request, length, eval.stride);
      Mean all;
      std::vector<Mean> by_bucket(buckets.size());
      for (const Window& window : windows) {
        std::vector<int32_t> tokens(static_cast<std::size_t>(window.length));
        held_out.copy(window.start, tokens);
        const std::vector<double> logits = logits_of(*run.setup.model, tokens);
        for (int64_t p = window.first_scored; p < window.length; ++p) {
          const double loss = cross_entropy_of(std::span(logits).subspan(static_cast<std::size_t>(p) * 256, 256),
                                               held_out.at(window.start + p + 1));
          const auto bucket =
              static_cast<std::size_t>(std::upper_bound(buckets.begin(), buckets.end(), p) - buckets.begin() - 1);
          all.sum += loss;
          ++all.count;
          by_bucket[bucket].sum += loss;
          ++by_bucket[bucket].count;
        }
      }
      EXPECT_EQ(scores.scored_tokens[i], all.count);
      EXPECT_GT(all.count, 100);
      // Losses of tokens are kept in float.
      EXPECT_NEAR(scores.loss[i], all.value(), 1e-6 * all.value()) << length;
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        const float logged = scores.loss_by_position[i * buckets.size() + b];
        if (by_bucket[b].count == 0) {
          EXPECT_TRUE(std::isnan(logged)) << "length " << length << ", position " << buckets[b];
        } else {
          EXPECT_NEAR(logged, by_bucket[b].value(), 1e-5 * by_bucket[b].value()) << buckets[b];
        }
      }
    }
  }
}

TEST_F(EvaluationTest, SameTokensAreScoredAtEveryLength) {
  const LengthScores scores = Evaluated(config({"eval.tokens=300"})).run();
  EXPECT_EQ(scores.scored_tokens[0], scores.scored_tokens[1]);
  EXPECT_EQ(scores.scored_tokens[0], scores.scored_tokens[2]);
  EXPECT_LE(scores.scored_tokens[0], 300);
  EXPECT_GT(scores.scored_tokens[0], 290);
}

TEST_F(EvaluationTest, ALengthBeyondALearnedTableHasNoScoreButANote) {
  const LengthScores scores =
      Evaluated(config({"position.encoding=learned", "position.max_length=24", "eval.lengths=16,24,25,32"})).run();
  EXPECT_TRUE(std::isfinite(scores.loss[0]));
  EXPECT_TRUE(std::isfinite(scores.loss[1]));
  EXPECT_TRUE(std::isnan(scores.loss[2]));
  EXPECT_TRUE(std::isnan(scores.loss[3]));
  EXPECT_EQ(scores.scored_tokens[3], 0);
  ASSERT_EQ(scores.notes.size(), 2U);
  EXPECT_EQ(scores.notes[0], "length 25: the model has positions for 24 (position.max_length)");
  const std::size_t buckets = scores.loss_by_position.size() / 4;
  for (std::size_t i = 2 * buckets; i < 4 * buckets; ++i) EXPECT_TRUE(std::isnan(scores.loss_by_position[i]));
}

TEST_F(EvaluationTest, MemoryStaysFromOneEvaluationToTheNext) {
  Evaluated run(config());
  Evaluator evaluator(run.setup.config, *run.setup.dataset, *run.setup.workers);
  const LengthScores first = evaluator.run(*run.setup.model);
  evaluator.run(*run.setup.model);
  const std::size_t held = evaluator.arena_bytes();
  const LengthScores last = evaluator.run(*run.setup.model);
  EXPECT_EQ(evaluator.arena_bytes(), held);
  EXPECT_EQ(first.loss, last.loss);
}

TEST_F(EvaluationTest, AnswersOfATaskAreScoredAgainstTheLikeliestToken) {
  const Config c = config({"data.source=task", "data.task=copy", "data.alphabet=3", "data.max_length=5",
                           "eval.lengths=2,5,9", "eval.tokens=200", "train.dtype=f64"});
  Evaluated run(c);
  const LengthScores scores = run.run();
  EXPECT_EQ(scores.protocol, "task");
  const Task& task = *run.setup.dataset->task();
  const auto vocabulary = static_cast<std::size_t>(run.setup.dataset->vocab_size());
  for (std::size_t i = 0; i < c.eval.lengths.size(); ++i) {
    Batch one;
    one.resize(1, problem_tokens(task, c.eval.lengths[i]));
    Mean loss;
    int64_t right = 0, exact = 0, problems = 0;
    while (loss.count < scores.scored_tokens[i]) {
      fill_evaluation_batch(task, c.eval.lengths[i], problems++, one);
      const std::vector<double> logits = logits_of(*run.setup.model, one.tokens);
      int64_t wrong = 0;
      for (std::size_t p = 0; p < one.targets.size(); ++p) {
        if (one.targets[p] < 0) continue;
        const auto row = std::span(logits).subspan(p * vocabulary, vocabulary);
        loss.sum += cross_entropy_of(row, one.targets[p]);
        ++loss.count;
        const auto best = std::max_element(row.begin(), row.end()) - row.begin();
        (best == one.targets[p] ? right : wrong) += 1;
      }
      exact += wrong == 0;
    }
    EXPECT_EQ(loss.count, scores.scored_tokens[i]);
    EXPECT_LE(loss.count, 200);
    EXPECT_NEAR(scores.loss[i], loss.value(), 1e-6 * loss.value());
    EXPECT_DOUBLE_EQ(scores.accuracy[i], static_cast<double>(right) / static_cast<double>(loss.count));
    EXPECT_DOUBLE_EQ(scores.exact_match[i], static_cast<double>(exact) / static_cast<double>(problems));
    // Far from certain, so that chance decides.
    EXPECT_LT(scores.accuracy[i], 0.8);
  }
}

TEST_F(EvaluationTest, AModelThatAlwaysEndsIsRightOnceAnAnswer) {
  Evaluated run(config({"data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=1,6,20",
                        "model.tie_embeddings=false"}));
  const ParameterSet& parameters = run.setup.model->parameters();
  fill(parameters.value(parameters.find("final_norm.weight")), 0.0);
  fill(parameters.value(parameters.find("final_norm.bias")), 1.0);
  const Tensor head = parameters.value(parameters.find("lm_head.weight"));
  fill(head, 0.0);
  for (int64_t j = 0; j < 16; ++j) head.set(kEnd * 16 + j, 1.0);
  const LengthScores scores = run.run();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(scores.accuracy[i], 1.0 / static_cast<double>(scores.lengths[i] + 1));
    EXPECT_EQ(scores.exact_match[i], 0.0);
  }
}

TEST_F(EvaluationTest, PairsAreScoredAgainstTheLikeliestTokenGivenTheRightOnesBefore) {
  const Config c = config({"model.arch=encoder_decoder", "data.source=task", "data.task=addition", "data.max_length=5",
                           "eval.lengths=2,5,9", "eval.tokens=300", "train.dtype=f64"});
  Evaluated run(c);
  Transformer& model = *run.setup.model;
  const LengthScores scores = run.run();
  EXPECT_EQ(scores.protocol, "pairs");
  const Task& task = *run.setup.dataset->task();
  for (std::size_t i = 0; i < c.eval.lengths.size(); ++i) {
    const SequenceShape shape = evaluation_shape(c, c.eval.lengths[i]);
    PairBatch one;
    one.resize(1, shape.source, shape.length);
    prepare(model, shape);
    Mean loss;
    int64_t right = 0;
    for (int64_t problem = 0; loss.count < scores.scored_tokens[i]; ++problem) {
      fill_evaluation_pairs(task, c.eval.lengths[i], problem, one);
      Workspace workspace;
      Tape tape(workspace, Mode::inference, &model.parameters());
      ForwardPass pass{.tape = tape, .sequences = 1, .length = shape.length};
      model.encode(pass, {.tokens = one.sources.data(), .length = shape.source, .lengths = one.source_lengths});
      const Tensor logits = model.logits(pass, one.inputs.data()).value();
      const int64_t vocabulary = logits.shape[-1];
      for (int64_t p = 0; p < shape.length; ++p) {
        if (one.targets[static_cast<std::size_t>(p)] < 0) continue;
        std::vector<double> row;
        for (int64_t v = 0; v < vocabulary; ++v) row.push_back(logits.at(p * vocabulary + v));
        loss.sum += cross_entropy_of(row, one.targets[static_cast<std::size_t>(p)]);
        ++loss.count;
        right += std::max_element(row.begin(), row.end()) - row.begin() == one.targets[static_cast<std::size_t>(p)];
      }
    }
    EXPECT_EQ(loss.count, scores.scored_tokens[i]);
    EXPECT_NEAR(scores.loss[i], loss.value(), 1e-6 * loss.value());
    EXPECT_DOUBLE_EQ(scores.accuracy[i], static_cast<double>(right) / static_cast<double>(loss.count));
    EXPECT_LT(scores.accuracy[i], 0.8) << "far from certain, so that chance decides";
  }
}

TEST_F(EvaluationTest, AnEncoderDecoderLearnsToCopyUntilItsGreedyAnswersAreAllRight) {
  const Config c =
      config({"model.arch=encoder_decoder", "data.source=task", "data.task=copy", "data.alphabet=4",
              "data.max_length=4", "eval.lengths=1,4,9", "eval.tokens=400", "model.d_model=32", "model.n_layers=1",
              "model.n_heads=2", "position.encoding=sinusoidal", "model.scale_embeddings=true", "train.batch_size=64",
              "train.steps=600", "optim.lr=1e-2", "optim.warmup_steps=50"});
  Training run(c);
  Evaluator evaluator(run.setup.config, *run.setup.dataset, *run.setup.workers);
  EXPECT_LT(evaluator.run(*run.setup.model).exact_match[1], 0.05);
  for (int64_t step = 1; step <= c.train.steps; ++step) ASSERT_FALSE(run.trainer.step(step, {}).divergence);
  const LengthScores scores = evaluator.run(*run.setup.model);
  EXPECT_EQ(scores.exact_match[0], 1.0);
  EXPECT_EQ(scores.exact_match[1], 1.0);
  EXPECT_EQ(scores.accuracy[1], 1.0);
  EXPECT_LT(scores.exact_match[2], 0.5) << "more than twice as long as any that it saw";
  EXPECT_GT(scores.accuracy[2], scores.exact_match[2]);
}

TEST_F(EvaluationTest, AnExactMatchOfPairsIsOneOfGreedyAnswers) {
  for (const auto& [positions, steps] :
       {std::pair{"position.randomize_to=0", "train.steps=60"}, {"position.randomize_to=50", "train.steps=300"}}) {
    const Config c =
        config({"model.arch=encoder_decoder", "data.source=task", "data.task=sort", "data.alphabet=2",
                "data.max_length=3", "eval.lengths=1,2,3", "eval.tokens=600", "optim.lr=1e-2", steps, positions});
    Training run(c);
    for (int64_t step = 1; step <= c.train.steps; ++step) ASSERT_FALSE(run.trainer.step(step, {}).divergence);
    const LengthScores scores =
        Evaluator(run.setup.config, *run.setup.dataset, *run.setup.workers).run(*run.setup.model);
    for (std::size_t i = 0; i < c.eval.lengths.size(); ++i) {
      const SequenceShape shape = evaluation_shape(c, c.eval.lengths[i]);
      const int64_t problems = scores.scored_tokens[i] / shape.length;
      ModelBatch batch;
      batch.resize(problems, shape);
      batch.fill_evaluation(*run.setup.dataset->task(), c.eval.lengths[i], 0);
      const BatchPart part = batch.part(0, problems);
      GreedyAnswers greedy(*run.setup.model, part, shape.length);
      Workspace workspace;
      run.setup.model->prepare_source(shape.source);
      for (; !greedy.done(); greedy.step(workspace))
        run.setup.model->prepare(greedy.length() + 1, {.capacity = shape.length});
      int64_t exact = 0;
      for (int64_t p = 0; p < problems; ++p) {
        const int64_t at = p * shape.length;
        exact += std::equal(part.targets + at, part.targets + at + shape.length, greedy.tokens().begin() + at);
      }
      EXPECT_DOUBLE_EQ(scores.exact_match[i], static_cast<double>(exact) / static_cast<double>(problems));
    }
    EXPECT_GT(scores.exact_match[0], 0.0);
    EXPECT_LT(scores.exact_match[2], 1.0);
  }
}

TEST_F(EvaluationTest, ALengthBeyondRandomPositionsHasANoteThatSaysWhatMayBeRaised) {
  const Config c = config({"position.randomize_to=24", "eval.lengths=16,25"});
  const LengthScores scores = Evaluated(c).run();
  EXPECT_TRUE(std::isfinite(scores.loss[0]));
  EXPECT_TRUE(std::isnan(scores.loss[1]));
  ASSERT_EQ(scores.notes.size(), 1U);
  EXPECT_EQ(scores.notes[0],
            "length 25: the model has positions for 24 (position.randomize_to, which a trained run may raise)");
}

TEST_F(EvaluationTest, ASourceBeyondALearnedTableHasNoScoreButANote) {
  // Sources of 13 digits and signs, answers of 8.
  const LengthScores scores =
      Evaluated(config({"model.arch=encoder_decoder", "data.source=task", "data.task=addition", "data.max_length=5",
                        "position.encoding=learned", "position.max_length=16", "eval.lengths=5,7,8"}))
          .run();
  EXPECT_TRUE(std::isfinite(scores.loss[1])) << "15 of 16 positions";
  EXPECT_TRUE(std::isnan(scores.loss[2])) << "17";
  EXPECT_TRUE(std::isnan(scores.exact_match[2]));
  ASSERT_EQ(scores.notes.size(), 1U);
  EXPECT_EQ(scores.notes[0], "length 8: the model has positions for 16 (position.max_length)");
}

TEST_F(EvaluationTest, ALossIsNeverSmoothed) {
  const Config plain = config();
  const Config smoothed = config({"optim.label_smoothing=0.3"});
  EXPECT_EQ(Evaluated(plain).run().loss, Evaluated(smoothed).run().loss);
}

/// The blocks of an encoder are those of a decoder without the causal mask, so a Transformer can stand for one.
struct Encoder {
  explicit Encoder(const Config& given)
      : config(given),
        dataset(open_data(config)),
        model({.model = config.model, .position = config.position, .attention = config.attention}, DType::f32),
        workers(1) {
    model.allocate();
    model.initialize(1);
  }
  LengthScores scores() { return Evaluator(config, *dataset, workers).run(model); }

  Config config;
  std::unique_ptr<Dataset> dataset;
  Transformer model;
  Workers workers;
};

TEST_F(EvaluationTest, AnEncoderLearnsToTellMaskedTokensAndIsScoredOnTheSameOnesAtEveryLength) {
  Encoder encoder(config({"model.arch=encoder", "train.batch_size=32", "train.steps=500", "eval.lengths=16,32",
                          "eval.tokens=4096", "optim.lr=1e-2", "data.mask_probability=0.2"}));
  EXPECT_EQ(encoder.model.config().model.vocab_size, 257);
  const LengthScores before = encoder.scores();
  EXPECT_EQ(before.scored_tokens[0], before.scored_tokens[1]);
  EXPECT_NEAR(before.loss[0], std::log(257), 0.1);
  Trainer trainer(encoder.config, encoder.model, *encoder.dataset, encoder.workers);
  for (int64_t step = 1; step <= encoder.config.train.steps; ++step) ASSERT_FALSE(trainer.step(step, {}).divergence);
  const LengthScores after = encoder.scores();
  EXPECT_EQ(after.scored_tokens, before.scored_tokens);
  EXPECT_EQ(after.loss, encoder.scores().loss);
  // It stands at about 2.85, what the frequencies of the letters give, until it has found out how to use both sides.
  EXPECT_LT(after.loss[0], 2.2);
}

TEST_F(EvaluationTest, AnEvaluationThatMasksNothingIsRefusedBeforeItRuns) {
  Encoder encoder(config({"model.arch=encoder", "data.mask_probability=1e-6"}));
  try {
    Evaluator(encoder.config, *encoder.dataset, encoder.workers).check();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("data.mask_probability"), std::string::npos) << error.what();
  }
}

TEST_F(EvaluationTest, HeldOutTextTooShortForTheWindowsIsRefused) {
  const std::string message = message_of<DataError>([&] {
    set_up(config({"eval.lengths=16,1000", "train.context_length=16"}));
  });
  EXPECT_NE(message.find("1000"), std::string::npos) << message;
}

TEST_F(EvaluationTest, AbsurdlyManyProblemsAreRefusedBeforeTheyAreListed) {
  const std::string message = message_of<std::runtime_error>([&] {
    set_up(config(
        {"data.source=task", "data.task=copy", "data.max_length=6", "eval.lengths=4", "eval.tokens=1000000000000"}));
  });
  EXPECT_NE(message.find("eval.tokens = 1000000000000"), std::string::npos) << message;
}

TEST(PositionBuckets, CoverTheLongestWindowInEqualSteps) {
  EXPECT_EQ(position_buckets(3), (std::vector<int64_t>{0, 1, 2}));
  const std::vector<int64_t> many = position_buckets(1000);
  EXPECT_LE(many.size(), 64U);
  EXPECT_EQ(many[1], 16);
  EXPECT_GE(many.back() + 16, 1000);
}

}  // namespace
}  // namespace ropewalk
