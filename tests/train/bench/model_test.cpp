#include "train/bench/model.h"

#include <map>

#include <gtest/gtest.h>

#include "small_subject.h"
#include "tests/train/training_testing.h"
#include "train/config_error.h"
#include "train/flops.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

TEST(BenchModel, TheSizesAreThoseThatModelsAreComparedAt) {
  // Useful operations of training a token, counted elsewhere; parameters with learned positions and an untied head.
  const std::map<std::string, std::pair<double, int64_t>> expected = {
      {"XS", {0.173e6, 30'656}}, {"S", {1.304e6, 212'480}}, {"M", {7.869e6, 1'271'808}}, {"L", {67.84e6, 10'942'464}}};
  for (const BenchSize& size : bench_sizes()) {
    const auto& [flops, parameters] = expected.at(size.name);
    const BenchSubject subject = bench_size(size.name, {});
    EXPECT_TRUE(subject.random_tokens);
    const TrainConfig& train = subject.config.train;
    EXPECT_NEAR(count_flops(subject.config, train.context_length).training() / flops, 1, 0.003) << size.name;
    const Transformer model(architecture_of(subject.config), dtype_of(train));
    EXPECT_EQ(model.parameters().elements(), parameters) << size.name;
    EXPECT_EQ(train.batch_size * train.context_length, size.batch * size.context);
  }
}

TEST(BenchModel, CountsTheOperationsOfItsPass) {
  const BenchSubject subject = small_subject();
  const FlopCount count = count_flops(subject.config, subject.config.train.context_length);
  EXPECT_EQ(BenchModel(subject, BenchPass::train).flops_per_token(), count.training());
  EXPECT_EQ(BenchModel(subject, BenchPass::forward).flops_per_token(), count.forward);
}

TEST(BenchModel, ANameThatIsNeitherSizeNorFileIsRefusedWithTheSizes) {
  try {
    bench_size("XXL", {});
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'XXL'"), std::string::npos) << text;
    EXPECT_NE(text.find("XS, S, M, L"), std::string::npos) << text;
  }
}

TEST(BenchModel, KeysThatASizeDoesNotReadAreRefusedAllAtOnce) {
  try {
    small_subject({"data.path=my.txt", "data.task = copy", "probe.inputs=data", "model.d_model=-1"});
    FAIL();
  } catch (const ConfigError& error) {
    ASSERT_EQ(error.messages().size(), 4U) << error.what();
    EXPECT_EQ(error.messages()[0],
              "command line: error: data.path=my.txt: size XS is measured on random tokens, so that [data] and [probe] "
              "are not read; to measure on data, give an experiment file");
    EXPECT_NE(error.messages()[1].find("data.task"), std::string::npos);
    EXPECT_NE(error.messages()[2].find("probe.inputs"), std::string::npos);
    EXPECT_NE(error.messages()[3].find("model.d_model"), std::string::npos);
  }
}

TEST(BenchModel, WarningsOfTheConfigurationAreHandedOn) {
  EXPECT_TRUE(small_subject().warnings.empty());
  const BenchSubject idle = small_subject({"position.rope_theta=500"});
  ASSERT_EQ(idle.warnings.size(), 1U);
  EXPECT_NE(idle.warnings[0].find("position.rope_theta = 500 changes nothing"), std::string::npos) << idle.warnings[0];
}

TEST(BenchModel, EveryWorkerHasItsMemoryBeforeTheFirstPass) {
  // One lane, or one part of a forward pass: only one of the workers has anything to do in a pass, whichever it is.
  for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
    const std::size_t of_one = BenchModel(small_subject(), pass).arena_bytes();
    EXPECT_GT(of_one, 0U);
    BenchModel model(small_subject({"train.threads=3"}), pass);
    EXPECT_EQ(model.arena_bytes(), 3 * of_one);
    for (int i = 0; i < 5; ++i) model.run();
    EXPECT_EQ(model.arena_bytes(), 3 * of_one);
  }
}

using BenchModelOnData = TinyTraining;

TEST_F(BenchModelOnData, TakesTheDataThatTheConfigurationNames) {
  const BenchSubject subject{.name = "tiny", .config = config({"data.tokenizer=chars", "train.batch_size=3"})};
  for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
    BenchModel model(subject, pass);
    EXPECT_GT(model.config().model.vocab_size, 10);
    EXPECT_EQ(model.tokens(), 3 * 16);
    EXPECT_GT(model.run(), 0);
    EXPECT_GT(model.arena_bytes(), 0U);
  }
}

TEST_F(BenchModelOnData, TakesPairs) {
  const BenchSubject subject{.name = "pairs",
                             .config = config({"model.arch=encoder_decoder", "data.source=task", "data.task=copy",
                                               "data.max_length=6", "eval.lengths=4", "train.batch_size=90"})};
  const FlopCount count = count_flops(BenchModel(subject, BenchPass::forward).config(), {.source = 6, .length = 7});
  for (const BenchPass pass : {BenchPass::train, BenchPass::forward}) {
    BenchModel model(subject, pass);
    EXPECT_EQ(model.tokens(), 90 * (6 + 7));
    EXPECT_EQ(model.flops_per_token(), pass == BenchPass::train ? count.training() : count.forward);
    EXPECT_GT(model.run(), 0);
    OpClock clock;
    model.run({.clock = &clock});
    std::map<std::string, OpClock::Row> rows;
    for (const OpClock::Row& row : clock.rows()) rows[row.op] = row;
    // 90 sequences of 13 positions go through in two passes, in training in 8 lanes; each has 2 layers of the encoder
    // and 2 of the decoder, which attend twice.
    EXPECT_EQ(rows.at("attention").laps, (pass == BenchPass::train ? 8 : 2) * 6);
  }
}

TEST(BenchModel, ASizeOfRandomTokensHasNoPairs) {
  try {
    BenchModel(small_subject({"model.arch=encoder_decoder"}), BenchPass::train);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("data.source = task"), std::string::npos) << error.what();
  }
}

TEST(BenchModel, AForwardPassTakesEverySequenceAndNothingBackward) {
  // 40 sequences of 60 tokens go 17 at a time.
  BenchModel model(small_subject({"train.batch_size=40", "train.context_length=60"}), BenchPass::forward);
  OpClock clock;
  const double passed = model.run({.clock = &clock});
  std::map<std::string, OpClock::Row> rows;
  double total = 0;
  for (const OpClock::Row& row : clock.rows()) {
    rows[row.op] = row;
    total += row.total();
    EXPECT_EQ(row.of(OpClock::Pass::backward), 0) << row.op;
  }
  EXPECT_EQ(rows.at("token_losses").laps, 3);
  EXPECT_EQ(rows.at("attention").laps, 3 * 2);
  EXPECT_GT(total, 0);
  EXPECT_LE(total, passed);
}

TEST(BenchModel, OpsAreTimedOnOneThreadOnly) {
  BenchModel model(small_subject({"train.threads=2"}), BenchPass::forward);
  OpClock clock;
  EXPECT_THROW(model.run({.clock = &clock}), Error);
  EXPECT_GT(model.run(), 0);
}

TEST(BenchModel, TheMemoryOfAllSubjectsTogetherIsChecked) {
  const std::vector<BenchSubject> few(2, small_subject());
  EXPECT_NO_THROW(require_memory_for(few));
  const std::vector<BenchSubject> many(1000, bench_size("L", {"model.d_model=6144", "model.n_layers=96"}));
  EXPECT_THROW(require_memory_for(many), Error);
}

}  // namespace
}  // namespace ropewalk
