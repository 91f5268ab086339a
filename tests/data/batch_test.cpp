#include "data/batch.h"

#include <gtest/gtest.h>

namespace ropewalk {
namespace {

TEST(Batch, RowsAreConsecutive) {
  Batch batch;
  batch.resize(2, 3);
  batch.row_tokens(1)[0] = 42;
  batch.row_targets(0)[2] = 43;
  EXPECT_EQ(batch.tokens[3], 42);
  EXPECT_EQ(batch.targets[2], 43);
}

TEST(Batch, CountsTargetsFromZeroOn) {
  Batch batch;
  batch.resize(1, 4);
  batch.targets = {kIgnored, 0, 5, kIgnored};
  EXPECT_EQ(batch.counted(), 2);
}

TEST(Batch, KeepsItsMemoryWhenItShrinksAndGrowsBack) {
  Batch batch;
  batch.resize(8, 16);
  const int32_t* memory = batch.tokens.data();
  batch.resize(2, 5);
  batch.resize(8, 16);
  EXPECT_EQ(batch.tokens.data(), memory);
}

}  // namespace
}  // namespace ropewalk
