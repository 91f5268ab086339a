#include "data/dataset.h"

#include <algorithm>
#include <cmath>
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
  std::vector<DataConfig> different(8, copy_task());
  different[1].task = "reverse";
  different[2].min_length += 1;
  different[3].max_length += 1;
  different[4].alphabet = 31;
  different[5].train_problems = 5;
  different[6].digit_order = "least_significant_first";
  different[7].gap = 3;
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

TEST_F(DatasetFiles, MaskedSequencesAreThoseOfTheDecoderWithTargetsWhereTheyAreMasked) {
  DataConfig config = numbered_text(1000);
  config.mask_probability = 0.3;
  const auto plain = open_dataset(config, 32);
  const auto masked = open_dataset(config, 32, 0, nullptr, Objective::masked_token);
  EXPECT_EQ(plain->vocab_size(), 256);
  EXPECT_EQ(masked->vocab_size(), 257);
  EXPECT_EQ(masked->tokenizer().vocab_size, 256);
  Batch whole;
  whole.resize(20, 32);
  fill_training_batch(*plain, 1, 4, 0, whole);
  Batch batch;
  batch.resize(20, 32);
  fill_training_batch(*masked, 1, 4, 0, batch);
  EXPECT_NEAR(static_cast<double>(batch.counted()), 0.3 * 640, 60);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(batch.tokens, 256)), 0.24 * 640, 60);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.targets[i] == kIgnored ? batch.tokens[i] : batch.targets[i], whole.tokens[i]);
  }
}

TEST_F(DatasetFiles, HeldOutWindowsAreMaskedAlikeWhateverTheirLength) {
  DataConfig config = numbered_text(1000);
  const auto plain = open_dataset(config, 32);
  const auto masked = open_dataset(config, 32, 0, nullptr, Objective::masked_token);
  // Both end at token 100 of the held-out text and score the last 20.
  std::vector<int32_t> tokens[2] = {std::vector<int32_t>(20), std::vector<int32_t>(60)};
  std::vector<int32_t> targets[2] = {std::vector<int32_t>(20), std::vector<int32_t>(60)};
  masked->fill_held_out({80, 20, 0}, tokens[0], targets[0]);
  masked->fill_held_out({40, 60, 40}, tokens[1], targets[1]);
  EXPECT_TRUE(std::equal(tokens[0].begin(), tokens[0].end(), tokens[1].begin() + 40));
  EXPECT_TRUE(std::equal(targets[0].begin(), targets[0].end(), targets[1].begin() + 40));
  EXPECT_GT(counted_targets(targets[0]), 0);
  EXPECT_EQ(counted_targets(std::span(targets[1]).first(40)), 0);
  EXPECT_GT(std::ranges::count(std::span(tokens[1]).first(40), 256), 0);
  for (std::size_t i = 0; i < 20; ++i) {
    if (targets[0][i] == kIgnored) continue;
    EXPECT_EQ(targets[0][i], static_cast<int32_t>((800 + 80 + i) % 251));
  }
  plain->fill_held_out({80, 20, 4}, tokens[0], targets[0]);
  EXPECT_EQ(tokens[0][4], (800 + 84) % 251);
  EXPECT_EQ(targets[0][3], kIgnored);
  EXPECT_EQ(targets[0][4], (800 + 85) % 251);
  EXPECT_THROW(open_dataset(copy_task(), 32)->fill_held_out({0, 20, 0}, tokens[0], targets[0]), std::logic_error);
}

TEST_F(DatasetFiles, TheMaskTokenIsOneOfTheVocabularyThatIsGiven) {
  const DataConfig config = {
      .source = "tokens", .path = write("ids.bin", pack({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 2)), .token_dtype = "uint16"};
  const auto open = [&](int64_t vocab_size) {
    return open_dataset(config, 4, vocab_size, nullptr, Objective::masked_token);
  };
  EXPECT_EQ(open(0)->vocab_size(), 11);
  EXPECT_EQ(open(11)->vocab_size(), 11);
  EXPECT_EQ(open(64)->vocab_size(), 64);
  EXPECT_TRUE(contains(data_error([&] { open(10); }), {"is 9, outside the vocabulary of 9"}));
  EXPECT_TRUE(contains(data_error([&] { open(1); }), {"model.vocab_size = 1", "mask token"}));
}

TEST_F(DatasetFiles, FingerprintFollowsTheMasking) {
  DataConfig config = numbered_text(100);
  std::set<uint64_t> prints = {open_dataset(config, 8)->fingerprint()};
  for (const double probability : {0.15, 0.2}) {
    config.mask_probability = probability;
    prints.insert(open_dataset(config, 8, 0, nullptr, Objective::masked_token)->fingerprint());
  }
  EXPECT_EQ(prints.size(), 3U);
}

TEST_F(DatasetFiles, PairBatchesDependOnSeedStepAndIndexAlone) {
  const auto dataset = open_dataset(copy_task(), 10, 0, nullptr, Objective::source_to_target);
  PairBatch whole;
  whole.resize(6, 9, 10);
  fill_training_pairs(*dataset->task(), 3, 11, 0, whole);
  EXPECT_GT(std::set<int64_t>(whole.source_lengths.begin(), whole.source_lengths.end()).size(), 1U);
  PairBatch part;
  part.resize(2, 9, 10);
  for (int64_t first = 4; first >= 0; first -= 2) {
    fill_training_pairs(*dataset->task(), 3, 11, first, part);
    EXPECT_TRUE(std::ranges::equal(part.sources, std::span(whole.sources).subspan(first * 9, 18)));
    EXPECT_TRUE(std::ranges::equal(part.source_lengths, std::span(whole.source_lengths).subspan(first, 2)));
    EXPECT_TRUE(std::ranges::equal(part.inputs, std::span(whole.inputs).subspan(first * 10, 20)));
    EXPECT_TRUE(std::ranges::equal(part.targets, std::span(whole.targets).subspan(first * 10, 20)));
  }
  fill_evaluation_pairs(*dataset->task(), 9, 0, part);
  EXPECT_EQ(part.source_lengths, (std::vector<int64_t>{9, 9}));
  EXPECT_EQ(part.counted(), 20);
}

TEST_F(DatasetFiles, EachHalfOfAPairMustFitIntoTheContext) {
  const auto open = [](const DataConfig& config, int64_t context) {
    return open_dataset(config, context, 0, nullptr, Objective::source_to_target);
  };
  EXPECT_NE(open(copy_task(), 10), nullptr);  // 9 symbols, and the end
  EXPECT_TRUE(contains(data_error([&] { open(copy_task(), 9); }), {"the target", "takes 10", "context_length has 9"}));
  DataConfig addition = copy_task();
  addition.task = "addition";
  EXPECT_TRUE(contains(data_error([&] { open(addition, 18); }), {"the source", "takes 19", "context_length has 18"}));
}

TEST_F(DatasetFiles, AnObjectiveThatTheSourceCannotHaveIsRefused) {
  EXPECT_TRUE(contains(data_error([&] { open_dataset(copy_task(), 32, 0, nullptr, Objective::masked_token); }),
                       {"data.source = task", "masked-token"}));
  EXPECT_TRUE(
      contains(data_error([&] { open_dataset(numbered_text(100), 8, 0, nullptr, Objective::source_to_target); }),
               {"data.source = text", "no pairs", "data.source = task"}));
  DataConfig config = numbered_text(100);
  for (const double probability : {0.0, 1.5, static_cast<double>(NAN)}) {
    config.mask_probability = probability;
    EXPECT_TRUE(contains(data_error([&] { open_dataset(config, 8, 0, nullptr, Objective::masked_token); }),
                         {"data.mask_probability"}));
  }
}

TEST_F(DatasetFiles, WrongKeysAreNamed) {
  EXPECT_TRUE(contains(data_error([] { open_dataset({.source = "web"}, 4); }), {"data.source = web", "task"}));
  EXPECT_TRUE(contains(data_error([] { open_dataset(copy_task(), 0); }), {"context_length = 0"}));
}

}  // namespace
}  // namespace ropewalk
