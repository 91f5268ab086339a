#include "framework/parameter.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

TEST(ParameterSetTest, AdjacentParametersLieWithoutGap) {
  ParameterSet set;
  set.add("odd", {3}, Role::other);
  const ParameterSpan span = set.add_adjacent({{.name = "query", .shape = {2, 5}, .role = Role::weight},
                                               {.name = "key", .shape = {1, 5}, .role = Role::weight}});
  set.add("last", {7}, Role::positive, 0.01);
  set.allocate(DType::f64);
  EXPECT_EQ(span.count, 2);
  EXPECT_EQ(set[span.first + 1].offset, set[span.first].offset + 10);
  EXPECT_EQ(set.elements(), 3 + 10 + 5 + 7);
  EXPECT_GE(set.flat_elements(), set.elements());
  EXPECT_EQ(set.find("key"), span.first + 1);
  EXPECT_EQ(set.find("value"), -1);
  set.value(span.first + 1).set(0, 4.0);
  EXPECT_EQ(set.flat_values().at(set[span.first].offset + 10), 4.0);
  EXPECT_THROW(set.allocate(DType::f64), Error);
  EXPECT_THROW(set.add("late", {1}, Role::other), Error);
}

TEST(ParameterSetTest, NamesAreUnique) {
  ParameterSet set;
  set.add("weight", {3}, Role::weight);
  EXPECT_THROW(set.add("weight", {3}, Role::weight), Error);
}

class GradientBufferTest : public ::testing::Test {
 protected:
  GradientBufferTest() {
    used_ = set_.add_adjacent({{.name = "a", .shape = {1, 3}}, {.name = "b", .shape = {2, 3}}});
    unused_ = set_.add("unused", {5}, Role::other);
    set_.allocate(DType::f64);
    gradients_ = GradientBuffer(set_);
    for (int64_t i = 0; i < gradients_.flat().elements(); ++i) gradients_.flat().set(i, 1e9);  // must be overwritten
  }

  void backward(double factor) {
    Tape tape(workspace_, Mode::train, &set_, &gradients_);
    const Var y = scale(tape.parameter(used_, {3, 3}), factor);
    Tensor ones = Tensor::zeros({3, 3}, DType::f64);
    for (int64_t i = 0; i < 9; ++i) ones.set(i, 1);
    tape.seed(y, ones);
    tape.backward();
  }

  ParameterSet set_;
  ParameterSpan used_;
  int32_t unused_ = -1;
  GradientBuffer gradients_;
  Workspace workspace_;
};

TEST_F(GradientBufferTest, TheFirstWriteOverwritesAndLaterOnesAdd) {
  for (int step = 0; step < 2; ++step) {
    gradients_.clear();
    backward(2.0);
    backward(3.0);
    EXPECT_TRUE(gradients_.written(used_.first));
    EXPECT_TRUE(gradients_.written(used_.first + 1));
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(set_.view(gradients_.flat(), used_.first).at(i), 5.0);
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(set_.view(gradients_.flat(), used_.first + 1).at(i), 5.0);
  }
}

TEST_F(GradientBufferTest, CompleteZeroesWhatNothingReached) {
  backward(2.0);
  EXPECT_FALSE(gradients_.written(unused_));
  gradients_.complete(set_);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(set_.view(gradients_.flat(), unused_).at(i), 0.0);
  EXPECT_EQ(set_.view(gradients_.flat(), used_.first).at(0), 2.0);
}

}  // namespace
}  // namespace ropewalk::testing
