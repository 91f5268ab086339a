#include "framework/ops/relative_bias.h"

#include <array>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

constexpr std::array<int32_t, 7> kBuckets = {3, 3, 1, 0, 1, 2, 2};

TEST(RelativeBiasTest, LooksUpTheBucketOfEachOffset) {
  const Tensor table = random_tensor({4, 3}, DType::f64, 1);
  const Function f = [](Tape&, const std::vector<Var>& in) { return bucket_bias(in[0], kBuckets); };
  const Tensor bias = run(f, {table}).value;
  ASSERT_TRUE(bias.shape == Shape({3, 7}));
  for (int64_t h = 0; h < 3; ++h) {
    for (int64_t c = 0; c < 7; ++c) {
      EXPECT_EQ(bias.at(h * 7 + c), table.at(kBuckets[static_cast<std::size_t>(c)] * 3 + h));
    }
  }
  EXPECT_LT(gradient_error(f, {table}), 1e-9);
  EXPECT_LT(relative_error(run(f, {cast(table, DType::f32)}).inputs[0], run(f, {table}).inputs[0]), 1e-6);
}

TEST(RelativeBiasTest, AddsUpWhenATableServesTwice) {
  const Function f = [](Tape&, const std::vector<Var>& in) {
    return scale_add(bucket_bias(in[0], kBuckets), 2.0, bucket_bias(in[0], kBuckets));
  };
  EXPECT_LT(gradient_error(f, {random_tensor({4, 3}, DType::f64, 1)}), 1e-9);
}

TEST(RelativeBiasTest, GivesNoGradientToABucketWithoutOffset) {
  const Function f = [](Tape&, const std::vector<Var>& in) { return bucket_bias(in[0], kBuckets); };
  const Tensor gradient = run(f, {random_tensor({6, 2}, DType::f64, 1)}).inputs[0];
  for (int64_t i = 8; i < 12; ++i) EXPECT_EQ(gradient.at(i), 0.0);
}

TEST(RelativeBiasTest, RefusesABucketOutsideTheTable) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Var table = tape.constant(Tensor::zeros({3, 2}, DType::f64));
  EXPECT_THROW(bucket_bias(table, kBuckets), Error);
  constexpr std::array<int32_t, 1> kNegative = {-1};
  EXPECT_THROW(bucket_bias(table, kNegative), Error);
}

TEST(RelativeBiasTest, TheBiasOfRelativeKeysMovesTheirQueriesFromOneVectorToAnother) {
  constexpr int64_t kOffsets = 5;
  const std::vector<Tensor> in = {random_tensor({kOffsets, 6}, DType::f64, 1), random_tensor({2, 3}, DType::f64, 2),
                                  random_tensor({2, 3}, DType::f64, 3)};
  const Function f = [](Tape&, const std::vector<Var>& x) { return relative_key_bias(x[0], x[1], x[2], 0.7); };
  const Tensor bias = run(f, in).value;
  ASSERT_TRUE(bias.shape == Shape({2, kOffsets}));
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t c = 0; c < kOffsets; ++c) {
      double expected = 0;
      for (int64_t i = 0; i < 3; ++i) {
        expected += 0.7 * (in[2].at(h * 3 + i) - in[1].at(h * 3 + i)) * in[0].at(c * 6 + h * 3 + i);
      }
      EXPECT_NEAR(bias.at(h * kOffsets + c), expected, 1e-14);
    }
  }
  EXPECT_LT(gradient_error(f, in), 1e-9);
}

TEST(RelativeBiasTest, AlibiIsALinearPenaltyWithALearnedSlope) {
  const Tensor slopes = random_tensor({3}, DType::f64, 1);
  for (const int64_t first : {-4, -6}) {  // five queries on five keys, three at the end of seven
    const Function f = [first](Tape&, const std::vector<Var>& in) { return alibi_bias(in[0], first, 9); };
    const Gradients got = run(f, {slopes});
    ASSERT_TRUE(got.value.shape == Shape({3, 9}));
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t c = 0; c < 9; ++c) {
        EXPECT_EQ(got.value.at(h * 9 + c), -slopes.at(h) * static_cast<double>(std::abs(first + c)));
      }
    }
    EXPECT_LT(gradient_error(f, {slopes}), 1e-9);
    EXPECT_LT(relative_error(run(f, {cast(slopes, DType::f32)}).inputs[0], got.inputs[0]), 1e-6);
  }
}

TEST(RelativeBiasTest, AlibiAddsUpWhenItsSlopesServeTwice) {
  const Function f = [](Tape&, const std::vector<Var>& in) {
    return add(alibi_bias(in[0], -3, 7), alibi_bias(in[0], -2, 7));
  };
  EXPECT_LT(gradient_error(f, {random_tensor({2}, DType::f64, 1)}), 1e-9);
}

std::vector<Tensor> kerple_inputs(int64_t heads) {
  std::vector<Tensor> in = {random_tensor({heads}, DType::f64, 1), random_tensor({heads}, DType::f64, 2)};
  for (Tensor& x : in) {
    for (int64_t i = 0; i < heads; ++i) x.set(i, 0.05 + std::abs(x.at(i)));
  }
  return in;
}

TEST(RelativeBiasTest, KerpleIsALogarithmicPenalty) {
  for (const int64_t n : {1, 9}) {
    const std::vector<Tensor> in = kerple_inputs(3);
    const Function f = [n](Tape&, const std::vector<Var>& leaves) { return kerple_bias(leaves[0], leaves[1], n); };
    const Tensor bias = run(f, in).value;
    ASSERT_TRUE(bias.shape == Shape({3, n}));
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t c = 0; c < n; ++c) {
        const auto distance = static_cast<double>(std::abs(c - (n - 1) / 2));
        EXPECT_NEAR(bias.at(h * n + c), -in[0].at(h) * std::log(1 + in[1].at(h) * distance), 1e-14);
      }
    }
    EXPECT_LT(gradient_error(f, in), 1e-9);
    EXPECT_LT(relative_error(run(f, {cast(in[0], DType::f32), cast(in[1], DType::f32)}).value, bias), 1e-6);
  }
}

TEST(RelativeBiasTest, KerpleStartsAtTheOffsetGiven) {
  const std::vector<Tensor> in = kerple_inputs(2);
  const Function f = [](Tape&, const std::vector<Var>& leaves) { return kerple_bias(leaves[0], leaves[1], -6, 8); };
  const Tensor bias = run(f, in).value;  // two queries at the end of seven keys
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t c = 0; c < 8; ++c) {
      const auto distance = static_cast<double>(std::abs(c - 6));
      EXPECT_NEAR(bias.at(h * 8 + c), -in[0].at(h) * std::log(1 + in[1].at(h) * distance), 1e-14);
    }
  }
  EXPECT_LT(gradient_error(f, in), 1e-9);
}

TEST(RelativeBiasTest, KerpleAddsUpWhenItsNumbersServeTwice) {
  const Function f = [](Tape&, const std::vector<Var>& in) {
    return add(kerple_bias(in[0], in[1], 5), kerple_bias(in[1], in[0], 5));
  };
  EXPECT_LT(gradient_error(f, kerple_inputs(2)), 1e-9);
}

TEST(RelativeBiasTest, KerpleKeepsSmallDistancesPreciseInSinglePrecision) {
  // ln(1 + x) of an x near the rounding of 1.
  const Function f = [](Tape&, const std::vector<Var>& in) { return kerple_bias(in[0], in[1], 3); };
  Tensor amplitude = Tensor::zeros({1}, DType::f32);
  Tensor rate = Tensor::zeros({1}, DType::f32);
  amplitude.set(0, 1.0);
  rate.set(0, 1e-6);
  EXPECT_NEAR(run(f, {amplitude, rate}).value.at(0) / 1e-6, -1.0, 1e-5);
}

TEST(RelativeBiasTest, RefusesAmplitudesAndRatesOfDifferentHeads) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Var two = tape.constant(Tensor::zeros({2}, DType::f64));
  const Var three = tape.constant(Tensor::zeros({3}, DType::f64));
  EXPECT_THROW(kerple_bias(two, three, 5), Error);
}

}  // namespace
}  // namespace ropewalk::testing
