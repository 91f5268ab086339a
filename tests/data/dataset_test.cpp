#include "data/dataset.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/data/support.h"

namespace ropewalk {
namespace {

class DatasetFiles : public DataFiles {
 protected:
  /// A text in which every byte tells its place: place % 251.
  DataConfig numbered_text(int64_t size) const {
    std::string content;
    for (int64_t i = 0; i < size; ++i) content.push_back(static_cast<char>(i % 251));
    return {.path = write("numbered.bin", content), .validation_fraction = 0.2};
  }
};

DataConfig copy_task() {
  return {.source = "task", .task = "copy", .min_length = 2, .max_length = 9};
}

TEST_F(DatasetFiles, TrainingTargetsAreTheNextTokensAndAllCount) {
  const auto dataset = open_dataset(numbered_text(1000), 16);
  Batch batch;
  batch.resize(8, 16);
  fill_training_batch(*dataset, 1, 0, 0, batch);
  EXPECT_EQ(batch.counted(), 8 * 16);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) EXPECT_EQ(batch.targets[i], (batch.tokens[i] + 1) % 251);
}

TEST_F(DatasetFiles, WindowsStartAnywhereInTheTrainingPartAndNeverReachTheHeldOut) {
  const auto dataset = open_dataset(numbered_text(250), 4);  // 200 train: starts 0 .. 195
  std::map<int32_t, int> starts;
  std::vector<int32_t> tokens(4);
  std::vector<int32_t> targets(4);
  for (int64_t i = 0; i < 19600; ++i) {
    dataset->fill_training(1, 0, i, tokens, targets);
    ++starts[tokens[0]];
    ASSERT_LT(targets[3], 200);
  }
  EXPECT_EQ(starts.size(), 196U);
  EXPECT_EQ(starts.rbegin()->first, 195);
  for (const auto& [start, count] : starts) EXPECT_NEAR(count, 100, 60) << start;
}

TEST_F(DatasetFiles, SequencesDependOnSeedStepAndIndexAlone) {
  for (const auto& dataset : {open_dataset(numbered_text(50000), 32), open_dataset(copy_task(), 32)}) {
    Batch whole;
    whole.resize(6, 32);
    fill_training_batch(*dataset, 3, 11, 0, whole);
    Batch part;
    part.resize(2, 32);
    for (int64_t first = 4; first >= 0; first -= 2) {
      fill_training_batch(*dataset, 3, 11, first, part);
      EXPECT_TRUE(std::ranges::equal(part.tokens, std::span(whole.tokens).subspan(first * 32, 64)));
      EXPECT_TRUE(std::ranges::equal(part.targets, std::span(whole.targets).subspan(first * 32, 64)));
    }
    const std::vector<int32_t> reference = whole.tokens;
    fill_training_batch(*dataset, 4, 11, 0, whole);
    EXPECT_NE(whole.tokens, reference);
    fill_training_batch(*dataset, 3, 12, 0, whole);
    EXPECT_NE(whole.tokens, reference);
    fill_training_batch(*dataset, 3, 11, 1, whole);
    EXPECT_NE(whole.tokens, reference);
  }
}

TEST_F(DatasetFiles, TheShortestTextHoldsOneSequenceAndItsTarget) {
  const DataConfig config = numbered_text(10);  // 8 train
  Batch batch;
  batch.resize(1, 7);
  fill_training_batch(*open_dataset(config, 7), 1, 0, 0, batch);
  EXPECT_EQ(batch.tokens[0], 0);
  EXPECT_TRUE(contains(data_error([&] { open_dataset(config, 8); }), {"8 tokens", "context_length = 8", "needs 9"}));
  std::vector<int32_t> row(8);
  EXPECT_TRUE(contains(data_error([&] { open_dataset(config, 7)->fill_training(1, 0, 0, row, row); }), {"needs 9"}));
}

TEST_F(DatasetFiles, IsEitherACorpusOrATask) {
  const auto text = open_dataset(numbered_text(100), 16);
  EXPECT_NE(text->corpus(), nullptr);
  EXPECT_EQ(text->task(), nullptr);
  EXPECT_EQ(text->vocab_size(), 256);
  EXPECT_TRUE(contains(text->describe(), {"numbered.bin", "100 tokens", "bytes", "256", "80 for training", "20 held"}));
  const auto task = open_dataset(copy_task(), 32);
  EXPECT_EQ(task->corpus(), nullptr);
  EXPECT_NE(task->task(), nullptr);
  EXPECT_EQ(task->vocab_size(), 36);
  EXPECT_TRUE(contains(task->describe(), {"copy", "2 to 9 symbols", "36"}));
}

TEST_F(DatasetFiles, DescribeCountsFurtherFiles) {
  write("1.txt", "abcdef");
  write("2.txt", "abcdef");
  const auto dataset = open_dataset({.path = path("*.txt")}, 4);
  EXPECT_TRUE(contains(dataset->describe(), {"1.txt and 1 more: 12 tokens"}));
}

TEST_F(DatasetFiles, FingerprintFollowsWhatTrainingDrawsFrom) {
  const auto print = [&](const std::string& text) {
    return open_dataset({.path = write("f.txt", text), .validation_fraction = 0.5}, 2)->fingerprint();
  };
  EXPECT_EQ(print("abcdefgh"), print("abcdefgh"));
  EXPECT_EQ(print("abcdefgh"), print("abcdxxxx"));
  EXPECT_NE(print("abcdefgh"), print("abdcefgh"));
}

TEST_F(DatasetFiles, FingerprintFollowsEveryKeyOfATask) {
  const auto print = [](const DataConfig& config) { return open_dataset(config, 64)->fingerprint(); };
  std::vector<DataConfig> different(7, copy_task());
  different[1].task = "reverse";
  different[2].min_length += 1;
  different[3].max_length += 1;
  different[4].alphabet = 31;
  different[5].train_problems = 5;
  different[6].digit_order = "least_significant_first";
  std::set<uint64_t> prints;
  for (const DataConfig& config : different) {
    EXPECT_EQ(print(config), print(config));
    prints.insert(print(config));
  }
  EXPECT_EQ(prints.size(), different.size());
  // What a resumed run compares with what an earlier program stored: it must never change.
  EXPECT_EQ(print(copy_task()), 0x3c153181d5d50041U);
}

TEST_F(DatasetFiles, TheLongestProblemMustFitIntoTheContext) {
  EXPECT_NE(open_dataset(copy_task(), 20), nullptr);  // 2 * 9 + 2
  EXPECT_TRUE(contains(data_error([] { open_dataset(copy_task(), 19); }),
                       {"copy", "max_length = 9", "takes 20 tokens", "context_length has 19"}));
}

TEST_F(DatasetFiles, WrongKeysAreNamed) {
  EXPECT_TRUE(contains(data_error([] { open_dataset({.source = "web"}, 4); }), {"data.source = web", "task"}));
  EXPECT_TRUE(contains(data_error([] { open_dataset(copy_task(), 0); }), {"context_length = 0"}));
}

}  // namespace
}  // namespace ropewalk
