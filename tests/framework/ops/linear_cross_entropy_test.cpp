#include "framework/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/linear.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

std::vector<int32_t> some_targets(int64_t rows, int64_t vocab) {
  std::vector<int32_t> targets(static_cast<std::size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    targets[static_cast<std::size_t>(r)] = r % 5 == 3 ? kIgnoredTarget : static_cast<int32_t>(r * 7 % vocab);
  }
  return targets;
}

struct Sizes {
  int64_t rows, d_model, vocab;
};
// The third is cut into several slices.
constexpr Sizes kSizes[] = {{1, 1, 1}, {7, 5, 11}, {230, 3, 700}};

TEST(LinearCrossEntropyTest, IsTheCrossEntropyOfTheLogitsAndHasItsGradients) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const auto& [rows, d_model, vocab] : kSizes) {
      const std::vector<int32_t> targets = some_targets(rows, vocab);
      const Function fused = [&](Tape&, const std::vector<Var>& in) {
        return linear_cross_entropy(in[0], in[1], targets.data(), 3.5, smoothing);
      };
      const Function apart = [&](Tape&, const std::vector<Var>& in) {
        return cross_entropy(linear(in[0], in[1]), targets.data(), 3.5, smoothing);
      };
      const std::vector<Tensor> inputs = {random_tensor({rows, d_model}, DType::f64, 1),
                                          random_tensor({vocab, d_model}, DType::f64, 2)};
      EXPECT_LT(run_error(run(fused, inputs), run(apart, inputs)), 1e-12);
      EXPECT_LT(single_precision_error(fused, inputs), 3e-6);
      EXPECT_LT(spread_over_instruction_sets(fused, inputs), 1e-12);
      if (rows < 100) {
        EXPECT_LT(gradient_error(fused, inputs), 5e-9);
      }
    }
  }
}

TEST(LinearCrossEntropyTest, ScalesWithTheCotangentAndAddsToWhatIsThere) {
  const std::vector<int32_t> targets = some_targets(6, 9);
  // The weight serves twice and the loss is scaled: tied embeddings under a loss that is one of several.
  const Function twice = [&](Tape&, const std::vector<Var>& in) {
    const Var a = linear_cross_entropy(in[0], in[1], targets.data(), 4.0);
    const Var b = linear_cross_entropy(in[0], in[1], targets.data(), 9.0);
    return add(scale(a, -3.0), b);
  };
  EXPECT_LT(gradient_error(twice, {random_tensor({6, 4}, DType::f64, 1), random_tensor({9, 4}, DType::f64, 2)}), 5e-9);
}

TEST(LinearCrossEntropyTest, StoresNoMoreLogitsThanASlice) {
  Workspace workspace;
  const int64_t rows = 5000;
  const int64_t vocab = 400;
  const std::vector<int32_t> targets = some_targets(rows, vocab);
  Tape tape(workspace, Mode::inference);
  const Var hidden = tape.constant(random_tensor({rows, 2}, DType::f32, 1));
  const Var weight = tape.constant(random_tensor({vocab, 2}, DType::f32, 2));
  linear_cross_entropy(hidden, weight, targets.data(), 1.0);
  EXPECT_LT(tape.arena().peak_bytes(), static_cast<std::size_t>(rows * vocab) * sizeof(float) / 8);
}

TEST(LinearTokenLossesTest, AreThoseOfTheLogits) {
  for (const auto& [rows, d_model, vocab] : kSizes) {
    const std::vector<int32_t> targets = some_targets(rows, vocab);
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    const Tensor hidden = random_tensor({rows, d_model}, DType::f64, 1);
    const Tensor weight = random_tensor({vocab, d_model}, DType::f64, 2);
    const Var logits = linear(tape.constant(hidden), tape.constant(weight));
    const auto n = static_cast<std::size_t>(rows);
    std::vector<float> expected(n);
    std::vector<float> losses(n);
    std::vector<int32_t> columns(n);
    std::vector<int32_t> predicted(n);
    token_losses(logits.value(), targets.data(), expected.data());
    argmax_rows(logits.value(), columns.data());
    const std::size_t before = tape.arena().live_bytes();
    linear_token_losses(hidden, weight, targets.data(), tape.arena(), losses.data(), predicted.data());
    EXPECT_EQ(tape.arena().live_bytes(), before);
    EXPECT_EQ(predicted, columns);
    for (std::size_t r = 0; r < n; ++r) EXPECT_NEAR(losses[r], expected[r], 1e-6);
  }
}

TEST(LinearCrossEntropyTest, RefusesWhatDoesNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var hidden = tape.leaf(random_tensor({2, 3}, DType::f64, 1));
  const Var weight = tape.leaf(random_tensor({5, 3}, DType::f64, 1));
  const Var wide = tape.leaf(random_tensor({5, 4}, DType::f64, 1));
  const std::vector<int32_t> good = {0, 4};
  const std::vector<int32_t> beyond = {0, 5};
  EXPECT_NO_THROW(linear_cross_entropy(hidden, weight, good.data(), 2.0));
  EXPECT_THROW(linear_cross_entropy(hidden, wide, good.data(), 2.0), Error);
  EXPECT_THROW(linear_cross_entropy(hidden, weight, beyond.data(), 2.0), Error);
  EXPECT_THROW(linear_cross_entropy(hidden, weight, good.data(), 0.0), Error);
  EXPECT_THROW(linear_cross_entropy(hidden, weight, good.data(), 2.0, 1.0), Error);
  std::vector<float> losses(2);
  const auto losses_of = [&](const Tensor& h, const Tensor& w, const std::vector<int32_t>& targets) {
    linear_token_losses(h, w, targets.data(), tape.arena(), losses.data(), nullptr);
  };
  EXPECT_NO_THROW(losses_of(hidden.value(), weight.value(), good));
  EXPECT_THROW(losses_of(hidden.value(), weight.value(), beyond), Error);
  EXPECT_THROW(losses_of(hidden.value(), cast(weight.value(), DType::f32), good), Error);
  EXPECT_THROW(losses_of(hidden.value(), Tensor::zeros({0, 3}, DType::f64), good), Error);
}

}  // namespace
}  // namespace ropewalk::testing
