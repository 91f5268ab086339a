#include "framework/ops/heads.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

TEST(JoinHeadsTest, PutsTheColumnsOfEachHeadOneAfterTheOther) {
  const Tensor a = random_tensor({2, 3, 11}, DType::f64, 1);
  const Tensor b = random_tensor({2, 3, 7}, DType::f64, 2);
  for (const int64_t shared : {0, 1, 2}) {
    const Function f = [shared](Tape&, const std::vector<Var>& in) {
      return join_heads(Heads{in[0], 1, shared == 1 ? 1 : 3, 3}, Heads{in[1], 0, shared == 2 ? 1 : 3, 2}, 3);
    };
    const Tensor y = run(f, {a, b}).value;
    ASSERT_EQ(y.shape, (Shape{2, 3, 15}));
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t c = 0; c < 5; ++c) {
          const double expected = c < 3 ? a.at(r * 11 + 1 + (shared == 1 ? 0 : h) * 3 + c)
                                        : b.at(r * 7 + (shared == 2 ? 0 : h) * 2 + c - 3);
          EXPECT_EQ(y.at(r * 15 + h * 5 + c), expected);
        }
      }
    }
    check_op(f, {a, b});
  }
}

TEST(JoinHeadsTest, PartsOfOneVarAndAVarUsedTwiceGetAllTheirGradients) {
  const Function parts = [](Tape&, const std::vector<Var>& in) {
    return join_heads(Heads{in[0], 4, 2, 1}, Heads{in[0], 0, 2, 2}, 2);
  };
  const Function twice = [](Tape&, const std::vector<Var>& in) {
    return add(join_heads(Heads{in[0], 0, 2, 2}, Heads{in[0], 0, 1, 2}, 2),
               join_heads(Heads{in[0], 2, 2, 2}, Heads{in[0], 1, 2, 2}, 2));
  };
  check_op(parts, {random_tensor({2, 3, 6}, DType::f64, 1)});
  check_op(twice, {random_tensor({2, 3, 6}, DType::f64, 1)});
}

TEST(JoinHeadsTest, RefusesHeadsThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 3, 6}, DType::f64, 1));
  const Var other = tape.leaf(random_tensor({2, 2, 6}, DType::f64, 1));
  EXPECT_NO_THROW(join_heads(Heads{x, 0, 2, 3}, Heads{x, 0, 1, 3}, 2));
  EXPECT_THROW(join_heads(Heads{x, 0, 3, 2}, Heads{x, 0, 2, 3}, 2), Error);
  EXPECT_THROW(join_heads(Heads{x, 1, 2, 3}, Heads{x, 0, 2, 3}, 2), Error);
  EXPECT_THROW(join_heads(Heads{x, 0, 2, 3}, Heads{other, 0, 2, 3}, 2), Error);
  EXPECT_THROW(join_heads(Heads{x, 0, 2, 3}, Heads{tape.leaf(random_tensor({2, 3, 6}, DType::f32, 1)), 0, 2, 3}, 2),
               Error);
}

TEST(HeadLinearTest, MultipliesEachHeadByItsRows) {
  const Tensor x = random_tensor({2, 3, 9}, DType::f64, 1);
  const Tensor weight = random_tensor({8, 5}, DType::f64, 2);  // two heads of 4 x 5
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Tensor y = head_linear(Heads{tape.constant(x), 1, 2, 4}, tape.constant(weight), false).value();
  ASSERT_EQ(y.shape, (Shape{2, 3, 10}));
  const Tensor wide = random_tensor({2, 3, 10}, DType::f64, 3);
  const Tensor z = head_linear(Heads{tape.constant(wide), 0, 2, 5}, tape.constant(weight), true).value();
  ASSERT_EQ(z.shape, (Shape{2, 3, 8}));
  for (int64_t r = 0; r < 6; ++r) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t n = 0; n < 5; ++n) {
        double sum = 0;
        for (int64_t m = 0; m < 4; ++m) sum += x.at(r * 9 + 1 + h * 4 + m) * weight.at((h * 4 + m) * 5 + n);
        EXPECT_NEAR(y.at(r * 10 + h * 5 + n), sum, 1e-14);
      }
      for (int64_t m = 0; m < 4; ++m) {
        double sum = 0;
        for (int64_t n = 0; n < 5; ++n) sum += wide.at(r * 10 + h * 5 + n) * weight.at((h * 4 + m) * 5 + n);
        EXPECT_NEAR(z.at(r * 8 + h * 4 + m), sum, 1e-14);
      }
    }
  }
}

TEST(HeadLinearTest, GradientsMatchDifferences) {
  for (const bool transposed : {false, true}) {
    const int64_t width = transposed ? 5 : 4;
    const Function f = [=](Tape&, const std::vector<Var>& in) {
      return head_linear(Heads{in[0], 1, 2, width}, in[1], transposed);
    };
    check_op(f, {random_tensor({2, 3, 12}, DType::f64, 1), random_tensor({8, 5}, DType::f64, 2)});
  }
  const Function twice = [](Tape&, const std::vector<Var>& in) {
    return head_linear(Heads{head_linear(Heads{in[0], 0, 2, 4}, in[1], false), 0, 2, 5}, in[1], true);
  };
  check_op(twice, {random_tensor({2, 3, 8}, DType::f64, 1), random_tensor({8, 5}, DType::f64, 2)});
}

TEST(HeadLinearTest, RefusesWhatDoesNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.constant(random_tensor({2, 3, 8}, DType::f64, 1));
  const Var weight = tape.constant(random_tensor({8, 5}, DType::f64, 2));
  EXPECT_NO_THROW(head_linear(Heads{x, 0, 2, 4}, weight, false));
  EXPECT_THROW(head_linear(Heads{x, 0, 2, 4}, weight, true), Error);
  EXPECT_THROW(head_linear(Heads{x, 0, 4, 2}, tape.constant(random_tensor({6, 5}, DType::f64, 2)), false), Error);
}

}  // namespace
}  // namespace ropewalk::testing
