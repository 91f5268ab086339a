#include "train/model_batch.h"

#include <algorithm>

#include "data/tasks/pairs.h"
#include "training_testing.h"

namespace ropewalk {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

class ModelBatchTest : public TinyTraining {
 protected:
  RunSetup pairs() const {
    return set_up(config({"model.arch=encoder_decoder", "data.source=task", "data.task=reverse", "data.max_length=6",
                          "eval.lengths=4"}));
  }
};

TEST_F(ModelBatchTest, APartOfSequencesIsThatOfTheirNumbers) {
  const RunSetup setup = set_up(config());
  ModelBatch batch;
  batch.resize(5, training_shape(setup.config));
  batch.fill_training(*setup.dataset, 3, 7);
  EXPECT_EQ(batch.counted(), 5 * 16);
  const BatchPart part = batch.part(3, 2);
  EXPECT_EQ(part.sequences, 2);
  EXPECT_EQ(part.length, 16);
  EXPECT_EQ(part.source.tokens, nullptr);
  std::vector<int32_t> tokens(16), targets(16);
  for (int64_t i = 0; i < 2; ++i) {
    setup.dataset->fill_training(3, 7, 3 + i, tokens, targets);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), part.tokens + i * 16));
    EXPECT_TRUE(std::equal(targets.begin(), targets.end(), part.targets + i * 16));
  }
}

TEST_F(ModelBatchTest, APartOfPairsHasTheirSourcesAndHowLongTheyAre) {
  const RunSetup setup = pairs();
  const Task& task = *setup.dataset->task();
  ModelBatch batch;
  batch.resize(5, training_shape(setup.config));
  for (const bool training : {true, false}) {
    if (training) {
      batch.fill_training(*setup.dataset, 3, 7);
    } else {
      batch.fill_evaluation(task, 4, 10);
    }
    const BatchPart part = batch.part(3, 2);
    EXPECT_EQ(part.length, 7);
    EXPECT_EQ(part.source.length, 6);
    ASSERT_EQ(part.source.lengths.size(), 2U);
    PairBatch one;
    one.resize(1, 6, 7);
    int64_t counted = 0;
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t length = training ? fill_training_pair(task, 3, 7, i, one.row(0))
                                      : fill_evaluation_pair(task, kEvaluationSeed, 4, 10 + i, one.row(0));
      counted += one.counted();
      if (i < 3) continue;
      EXPECT_EQ(part.source.lengths[static_cast<std::size_t>(i - 3)], length);
      EXPECT_TRUE(std::equal(one.sources.begin(), one.sources.end(), part.source.tokens + (i - 3) * 6));
      EXPECT_TRUE(std::equal(one.inputs.begin(), one.inputs.end(), part.tokens + (i - 3) * 7));
      EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), part.targets + (i - 3) * 7));
    }
    EXPECT_EQ(batch.counted(), counted);
  }
}

TEST_F(ModelBatchTest, TheShapeDecidesTheKindEachTimeAnew) {
  const RunSetup text = set_up(config());
  const RunSetup task = pairs();
  ModelBatch batch;
  batch.resize(2, {.source = 6, .length = 7});
  batch.fill_training(*task.dataset, 1, 1);
  EXPECT_NE(batch.part(0, 2).source.tokens, nullptr);
  batch.resize(2, {.length = 12});
  const std::vector<Window> windows = {{.start = 0, .length = 12}, {.start = 5, .length = 12, .first_scored = 4}};
  batch.fill_held_out(*text.dataset, windows);
  EXPECT_EQ(batch.part(0, 2).source.tokens, nullptr);
  EXPECT_EQ(batch.counted(), 12 + 8);
}

}  // namespace
}  // namespace ropewalk
