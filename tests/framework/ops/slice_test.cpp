#include "framework/ops/slice.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

TEST(LastRowsTest, KeepsTheEndOfEachSequence) {
  for (int64_t count : {0, 1, 3, 4}) {
    const Function f = [count](Tape&, const std::vector<Var>& in) { return last_rows(in[0], count); };
    const Tensor x = random_tensor({2, 4, 7}, DType::f64, 1);
    const Tensor y = run(f, {x}).value;
    ASSERT_EQ(y.shape, (Shape{2, count, 7}));
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t b = i / (count * 7);
      EXPECT_EQ(y.at(i), x.at((b * 4 + 4 - count) * 7 + i % (count * 7)));
    }
    if (count > 0) check_op(f, {x});
  }
}

TEST(LastRowsTest, AVarUsedTwiceGetsBothGradients) {
  const Function f = [](Tape&, const std::vector<Var>& in) { return add(last_rows(in[0], 2), last_rows(in[0], 2)); };
  check_op(f, {random_tensor({2, 4, 7}, DType::f64, 1)});
}

TEST(LastRowsTest, RefusesMoreRowsThanThereAre) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  EXPECT_THROW(last_rows(tape.leaf(random_tensor({2, 4, 7}, DType::f64, 1)), 5), Error);
}

}  // namespace
}  // namespace ropewalk::testing
