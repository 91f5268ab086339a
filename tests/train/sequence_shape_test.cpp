#include "train/sequence_shape.h"

#include <gtest/gtest.h>

#include "data/error.h"

namespace ropewalk {
namespace {

Config config_of(Arch arch, const std::string& task) {
  Config config;
  config.model.arch = arch;
  config.data.source = task.empty() ? "text" : "task";
  config.data.task = task;
  config.data.max_length = 6;
  config.train.context_length = 32;
  config.eval.lengths = {3, 6, 9};
  return config;
}

TEST(SequenceShape, OneStackReadsTheWholeContextInTrainingAndTheProblemInEvaluation) {
  for (const Arch arch : {Arch::decoder, Arch::encoder}) {
    EXPECT_EQ(training_shape(config_of(arch, "")), (SequenceShape{.length = 32}));
    EXPECT_EQ(evaluation_shape(config_of(arch, ""), 50), (SequenceShape{.length = 50}));
    EXPECT_EQ(longest_evaluation_shape(config_of(arch, "")), (SequenceShape{.length = 9}));
  }
  EXPECT_EQ(training_shape(config_of(Arch::decoder, "copy")), (SequenceShape{.length = 32}));
  // <begin>, three symbols, the separator, three symbols; <end> is predicted only.
  EXPECT_EQ(evaluation_shape(config_of(Arch::decoder, "copy"), 3), (SequenceShape{.length = 8}));
}

TEST(SequenceShape, APairIsAsLongAsItsLongestProblemWhateverTheContext) {
  EXPECT_EQ(training_shape(config_of(Arch::encoder_decoder, "copy")), (SequenceShape{.source = 6, .length = 7}));
  EXPECT_EQ(evaluation_shape(config_of(Arch::encoder_decoder, "copy"), 3), (SequenceShape{.source = 3, .length = 4}));
  EXPECT_EQ(longest_evaluation_shape(config_of(Arch::encoder_decoder, "copy")).positions(), 9 + 10);
  EXPECT_EQ(training_shape(config_of(Arch::encoder_decoder, "addition")), (SequenceShape{.source = 13, .length = 8}));
  EXPECT_THROW(evaluation_shape(config_of(Arch::encoder_decoder, "copy"), 0), DataError);
}

TEST(SequenceShape, HasWords) {
  EXPECT_EQ(shape_text({.length = 41}), "41 positions");
  EXPECT_EQ(shape_text({.source = 20, .length = 21}), "20 source and 21 target positions");
}

}  // namespace
}  // namespace ropewalk
