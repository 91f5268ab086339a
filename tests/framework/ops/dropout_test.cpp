#include "framework/ops/dropout.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

Function dropout_of(double rate, uint32_t first = 0, uint32_t step = 3, uint32_t site = 2) {
  return [=](Tape&, const std::vector<Var>& in) { return dropout(in[0], rate, 0x123456789ABCULL, step, first, site); };
}

Tensor ones(const Shape& shape) {
  Tensor x = Tensor::zeros(shape, DType::f64);
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, 1);
  return x;
}

// Differences would be taken in inference mode, where nothing is dropped; the mask is seen on ones instead.
TEST(DropoutTest, GradientsGoThroughTheSameMask) {
  const Function f = dropout_of(0.3);
  const Function twice = [&f](Tape& t, const std::vector<Var>& in) { return add(in[0], f(t, in)); };
  for (int64_t n : {1, 7, 33, 130}) {
    const Tensor x = random_tensor({3, n}, DType::f64, 1);
    const Tensor factors = run(f, {ones({3, n})}).value;
    const Tensor cotangent = random_tensor({3, n}, DType::f64, 99);
    const Gradients once = run(f, {x});
    const Gradients both = run(twice, {x});
    for (int64_t i = 0; i < 3 * n; ++i) {
      EXPECT_EQ(once.value.at(i), x.at(i) * factors.at(i));
      EXPECT_EQ(once.inputs[0].at(i), cotangent.at(i) * factors.at(i));
      EXPECT_NEAR(both.inputs[0].at(i), cotangent.at(i) * (1 + factors.at(i)), 1e-14);
    }
    EXPECT_LT(single_precision_error(f, {x}), 2e-6);
    EXPECT_EQ(spread_over_instruction_sets(f, {x}), 0.0);
  }
}

// Element 16 w + b of a tile of 64 is decided by word w of block b.
TEST(DropoutTest, TheMaskIsThePhiloxStreamOfTheSequence) {
  const Tensor y = run(dropout_of(0.25, 7), {ones({2, 200})}).value;
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t e = i % 200;
    const RandomKey key{
        .seed = 0x123456789ABCULL, .stream = Stream::dropout, .a = 3, .b = 7 + static_cast<uint32_t>(i / 200)};
    const auto block = static_cast<uint64_t>(e / 64 * 16 + e % 16);
    const uint32_t word = random_block(key, (uint64_t{2} << 32) + block)[static_cast<std::size_t>(e % 64 / 16)];
    EXPECT_EQ(y.at(i), word >= 0x40000000U ? 1 / 0.75 : 0.0) << i;
  }
}

TEST(DropoutTest, TheCutIntoMicroBatchesChangesNothing) {
  const Tensor x = ones({4, 70});
  const Tensor whole = run(dropout_of(0.4), {x}).value;
  const Tensor half = run(dropout_of(0.4, 2), {ones({2, 70})}).value;
  for (int64_t i = 0; i < 140; ++i) EXPECT_EQ(half.at(i), whole.at(140 + i));
}

TEST(DropoutTest, KeepsTheRightShareAndTheMeanAndDiffersBySiteAndStep) {
  const Tensor x = ones({10, 10000});
  const Tensor y = run(dropout_of(0.2), {x}).value;
  const Tensor other_site = run(dropout_of(0.2, 0, 3, 4), {x}).value;
  const Tensor other_step = run(dropout_of(0.2, 0, 4), {x}).value;
  double kept = 0, both_sites = 0, both_steps = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    kept += y.at(i) > 0;
    both_sites += y.at(i) > 0 && other_site.at(i) > 0;
    both_steps += y.at(i) > 0 && other_step.at(i) > 0;
  }
  EXPECT_NEAR(kept / 1e5, 0.8, 0.006);
  EXPECT_NEAR(both_sites / 1e5, 0.64, 0.008);
  EXPECT_NEAR(both_steps / 1e5, 0.64, 0.008);
}

TEST(DropoutTest, IsTheInputItselfAtRateZeroAndInInference) {
  Workspace workspace;
  {
    Tape tape(workspace, Mode::train);
    const Var x = tape.leaf(ones({2, 3}));
    EXPECT_EQ(dropout(x, 0.0, 1, 1, 0, 0).id, x.id);
    EXPECT_THROW(dropout(x, 1.0, 1, 1, 0, 0), Error);
    EXPECT_THROW(dropout(x, -0.1, 1, 1, 0, 0), Error);
    EXPECT_THROW(dropout(x, 0.1, 1, 1, 0, 1U << 24), Error);
  }
  Tape tape(workspace, Mode::inference);
  const Var x = tape.constant(ones({2, 3}));
  EXPECT_EQ(dropout(x, 0.5, 1, 1, 0, 0).id, x.id);
}

}  // namespace
}  // namespace ropewalk::testing
