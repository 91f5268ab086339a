#include "framework/ops/embedding.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr int32_t kIds[] = {3, 0, 3, 4, 3, 1};

Var embed(Tape&, const std::vector<Var>& in) {
  return embedding(kIds, {2, 3}, in[0], 1.5);
}
Var positions_from_2(Tape&, const std::vector<Var>& in) {
  return add_positions(in[0], in[1], {.start = 2});
}

TEST(EmbeddingTest, PicksScaledRowsAndAddsTheirGradients) {
  for (int64_t width : {1, 7, 33}) {
    const Tensor weight = random_tensor({5, width}, DType::f64, 1);
    const Tensor y = run(embed, {weight}).value;
    EXPECT_EQ(y.shape, (Shape{2, 3, width}));
    for (int64_t i = 0; i < y.elements(); ++i) {
      EXPECT_EQ(y.at(i), 1.5 * weight.at(kIds[i / width] * width + i % width));
    }
    check_op(embed, {weight});
  }
}

TEST(EmbeddingTest, ATiedWeightGetsBothGradients) {
  const Function tied = [](Tape& t, const std::vector<Var>& in) { return linear(embed(t, in), in[0]); };
  check_op(tied, {random_tensor({5, 7}, DType::f64, 1)});
}

TEST(EmbeddingTest, NamesAnIdOutsideTheVocabulary) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var weight = tape.leaf(random_tensor({4, 3}, DType::f32, 1));
  EXPECT_THROW(embedding(kIds, {6}, weight), Error);
  const int32_t negative[] = {0, -1};
  try {
    embedding(negative, {2}, weight);
    ADD_FAILURE() << "accepted id -1";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("position 1 is -1"), std::string::npos) << error.what();
  }
}

TEST(AddPositionsTest, AddsTheRowsFromStartToEverySequence) {
  const std::vector<Tensor> in = {random_tensor({2, 3, 7}, DType::f64, 1), random_tensor({6, 7}, DType::f64, 2)};
  const Tensor y = run(positions_from_2, in).value;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(y.at(b * 21 + i), in[0].at(b * 21 + i) + in[1].at(14 + i));
  }
  check_op(positions_from_2, in);
}

TEST(AddPositionsTest, TakesTheRowsThatItIsTold) {
  const std::vector<int32_t> positions = {1, 2, 4, 7, 8};
  const std::vector<int64_t> first_token = {0, 3};
  const Function f = [&](Tape&, const std::vector<Var>& in) {
    return add_positions(in[0], in[1], {.start = 2, .first_token = first_token, .positions = positions});
  };
  const std::vector<Tensor> in = {random_tensor({2, 3, 7}, DType::f64, 1), random_tensor({9, 7}, DType::f64, 2)};
  const Tensor y = run(f, in).value;
  // The second sequence begins with its second place here.
  const std::vector<int64_t> rows = {4, 7, 8, -1, 1, 2};
  for (int64_t i = 0; i < 42; ++i) {
    const int64_t row = rows[static_cast<std::size_t>(i / 7)];
    EXPECT_EQ(y.at(i), in[0].at(i) + (row < 0 ? 0.0 : in[1].at(row * 7 + i % 7)));
  }
  check_op(f, in);
}

TEST(AddPositionsTest, RefusesPositionsBeyondTheTable) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({2, 3, 7}, DType::f64, 1));
  const Var table = tape.constant(random_tensor({4, 7}, DType::f64, 1));
  EXPECT_NO_THROW(add_positions(x, table, {.start = 1}));
  EXPECT_THROW(add_positions(x, table, {.start = 2}), Error);
  EXPECT_THROW(add_positions(x, table, {.start = -1}), Error);
  const std::vector<int32_t> within = {0, 2, 3};
  const std::vector<int32_t> beyond = {0, 2, 4};
  EXPECT_NO_THROW(add_positions(x, table, {.positions = within}));
  EXPECT_THROW(add_positions(x, table, {.start = 1, .positions = within}), Error);
  EXPECT_THROW(add_positions(x, table, {.positions = beyond}), Error);
}

}  // namespace
}  // namespace ropewalk::testing
