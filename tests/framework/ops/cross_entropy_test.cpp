#include "framework/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

std::vector<int32_t> targets_of(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r) {
    targets.push_back(r % 3 == 1 ? kIgnoredTarget : static_cast<int32_t>((5 * r + 2) % vocabulary));
  }
  return targets;
}

double token_loss(const Tensor& logits, int64_t row, int32_t target) {
  const int64_t n = logits.shape[-1];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits.at(row * n + i) - logits.at(row * n + target));
  return std::log(sum);
}

/// The mean over the vocabulary of -log p: what label smoothing mixes in.
double uniform_loss(const Tensor& logits, int64_t row) {
  const int64_t n = logits.shape[-1];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += logits.at(row * n) - logits.at(row * n + i);
  return token_loss(logits, row, 0) + sum / static_cast<double>(n);
}

Function loss_of(const std::vector<int32_t>& targets, double normalizer, double label_smoothing = 0.0) {
  return [=](Tape&, const std::vector<Var>& in) {
    return cross_entropy(in[0], targets.data(), normalizer, label_smoothing);
  };
}

TEST(CrossEntropyTest, MatchesTheFormulaAndItsGradients) {
  for (int64_t vocabulary : {2, 7, 33, 130}) {
    for (int64_t rows : {1, 5}) {
      const Tensor logits = random_tensor({rows, vocabulary}, DType::f64, 1, 2.0);
      const std::vector<int32_t> targets = targets_of(rows, vocabulary);
      double expected = 0;
      for (int64_t r = 0; r < rows; ++r) {
        if (targets[static_cast<std::size_t>(r)] >= 0) {
          expected += token_loss(logits, r, targets[static_cast<std::size_t>(r)]) / 3.5;
        }
      }
      const Gradients got = run(loss_of(targets, 3.5), {logits});
      EXPECT_EQ(got.value.shape, Shape{});
      EXPECT_NEAR(got.value.at(0), expected, 1e-13 * expected);
      check_op(loss_of(targets, 3.5), {logits});
    }
  }
}

TEST(CrossEntropyTest, LabelSmoothingMixesInTheMeanLossOfAllTokens) {
  for (const double smoothing : {0.1, 0.75}) {
    for (int64_t vocabulary : {1, 2, 7, 33, 130}) {
      const Tensor logits = random_tensor({5, vocabulary}, DType::f64, 1, 2.0, 3.0);
      const std::vector<int32_t> targets = targets_of(5, vocabulary);
      double expected = 0;
      for (int64_t r = 0; r < 5; ++r) {
        const int32_t target = targets[static_cast<std::size_t>(r)];
        if (target < 0) continue;
        expected += ((1 - smoothing) * token_loss(logits, r, target) + smoothing * uniform_loss(logits, r)) / 3.5;
      }
      const Gradients got = run(loss_of(targets, 3.5, smoothing), {logits});
      EXPECT_NEAR(got.value.at(0), expected, 1e-13 * expected + 1e-15);
      for (int64_t i = vocabulary; i < 2 * vocabulary; ++i) EXPECT_EQ(got.inputs[0].at(i), 0.0);
      if (vocabulary > 1) check_op(loss_of(targets, 3.5, smoothing), {logits});
    }
  }
}

TEST(CrossEntropyTest, ASmoothedLossIsLeastWhereTheModelSaysTheSmoothedLabel) {
  // p = 1 - e + e / V at the target and e / V elsewhere: the loss is the entropy of the label and the gradient is 0.
  const double smoothing = 0.1;
  const int64_t n = 19;
  const double elsewhere = smoothing / static_cast<double>(n);
  const double at_target = 1 - smoothing + elsewhere;
  Tensor logits = Tensor::zeros({1, n}, DType::f64);
  for (int64_t i = 0; i < n; ++i) logits.set(i, std::log(i == 6 ? at_target : elsewhere));
  const Gradients got = run(loss_of({6}, 1.0, smoothing), {logits});
  const double entropy =
      -at_target * std::log(at_target) - static_cast<double>(n - 1) * elsewhere * std::log(elsewhere);
  EXPECT_NEAR(got.value.at(0), entropy, 1e-14);
  for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(got.inputs[0].at(i), 0.0, 1e-15);
}

TEST(CrossEntropyTest, ASmoothedLossKeepsItsPrecisionFarFromZeroAndOverALongVocabulary) {
  Tensor logits = random_tensor({1, 50001}, DType::f32, 1);
  for (int64_t i = 0; i < logits.elements(); ++i) logits.set(i, 4096 + logits.at(i));
  const double expected = 0.5 * token_loss(logits, 0, 17) + 0.5 * uniform_loss(logits, 0);
  EXPECT_NEAR(run(loss_of({17}, 1.0, 0.5), {logits}).value.at(0), expected, 3e-7 * expected);
}

TEST(CrossEntropyTest, RowsWithoutTargetGetZeroOnFirstWriteAndKeepWhatTheyHadLater) {
  const std::vector<int32_t> targets = {1, kIgnoredTarget};
  const Tensor logits = random_tensor({2, 5}, DType::f32, 1);
  const Gradients alone = run(loss_of(targets, 1.0), {logits});
  for (int64_t i = 5; i < 10; ++i) EXPECT_EQ(alone.inputs[0].at(i), 0.0);

  const Function twice = [&](Tape&, const std::vector<Var>& in) {
    return add(cross_entropy(in[0], targets.data(), 1.0), cross_entropy(scale(in[0], 1.0), targets.data(), 0.5));
  };
  check_op(twice, {random_tensor({2, 5}, DType::f64, 1)});
  const Function others = [&](Tape&, const std::vector<Var>& in) {
    const std::vector<int32_t> swapped = {kIgnoredTarget, 3};
    return add(cross_entropy(in[0], targets.data(), 1.0), cross_entropy(in[0], swapped.data(), 1.0));
  };
  check_op(others, {random_tensor({2, 5}, DType::f64, 1)});
}

TEST(CrossEntropyTest, NothingToPredictIsALossOfZero) {
  const Gradients got = run(loss_of({-1, -1}, 1.0), {random_tensor({2, 5}, DType::f64, 1)});
  EXPECT_EQ(got.value.at(0), 0.0);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(got.inputs[0].at(i), 0.0);
}

TEST(CrossEntropyTest, ALongVocabularyKeepsItsPrecision) {
  const Tensor logits = random_tensor({2, 50001}, DType::f32, 1);
  const std::vector<int32_t> targets = {50000, 17};
  const double expected = token_loss(logits, 0, 50000) + token_loss(logits, 1, 17);
  EXPECT_NEAR(run(loss_of(targets, 1.0), {logits}).value.at(0), expected, 3e-7 * expected);
}

TEST(CrossEntropyTest, ACertainTokenHasNoLossAndAnImpossibleOneALargeOne) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor logits = Tensor::zeros({1, 9}, dtype);
    logits.set(4, 1e4);
    EXPECT_EQ(run(loss_of({4}, 1.0), {logits}).value.at(0), 0.0);
    const Gradients wrong = run(loss_of({3}, 1.0), {logits});
    EXPECT_EQ(wrong.value.at(0), 1e4);
    EXPECT_NE(wrong.inputs[0].at(3), 0.0);
    EXPECT_EQ(wrong.inputs[0].at(3), -wrong.inputs[0].at(4));
  }
}

TEST(CrossEntropyTest, ANanInTheLogitsReachesTheLoss) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (int64_t where : {0, 7, 18}) {
      Tensor logits = random_tensor({1, 19}, dtype, 1);
      logits.set(where, NAN);
      EXPECT_TRUE(std::isnan(run(loss_of({4}, 1.0), {logits}).value.at(0)));
      EXPECT_TRUE(std::isnan(run(loss_of({4}, 1.0, 0.1), {logits}).value.at(0)));
    }
  }
}

TEST(CrossEntropyTest, NamesATargetOutsideTheVocabularyAndItsPosition) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var logits = tape.leaf(random_tensor({3, 5}, DType::f32, 1));
  for (const int32_t bad : {5, -2}) {
    const std::vector<int32_t> targets = {0, bad, 1};
    try {
      cross_entropy(logits, targets.data(), 1.0);
      ADD_FAILURE() << "accepted target " << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("position 1 is " + std::to_string(bad)), std::string::npos)
          << error.what();
    }
  }
  const std::vector<int32_t> good = {0, 4, 1};
  EXPECT_THROW(cross_entropy(logits, good.data(), 0.0), Error);
  EXPECT_THROW(cross_entropy(logits, good.data(), NAN), Error);
  for (const double smoothing : {-0.1, 1.0, static_cast<double>(NAN)}) {
    EXPECT_THROW(cross_entropy(logits, good.data(), 3.0, smoothing), Error) << smoothing;
  }
}

TEST(CrossEntropyTest, TheCallerMayForgetTheTargets) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var logits = tape.leaf(random_tensor({2, 5}, DType::f64, 1));
  std::vector<int32_t> targets = {1, 2};
  const Var loss = cross_entropy(logits, targets.data(), 1.0);
  targets = {4, 4};
  tape.backward(loss);
  EXPECT_LT(tape.gradient_of(logits).at(1), 0.0);
  EXPECT_GT(tape.gradient_of(logits).at(4), 0.0);
}

TEST(TokenLossesTest, AreTheTermsOfTheLoss) {
  const Tensor logits = random_tensor({2, 3, 33}, DType::f32, 1, 2.0);
  const std::vector<int32_t> targets = targets_of(6, 33);
  std::vector<float> losses(6, -1);
  token_losses(logits, targets.data(), losses.data());
  for (int64_t r = 0; r < 6; ++r) {
    const auto i = static_cast<std::size_t>(r);
    EXPECT_NEAR(losses[i], targets[i] < 0 ? 0.0 : token_loss(logits, r, targets[i]), 2e-6);
  }
}

TEST(ArgmaxTest, TakesTheFirstOfTheGreatestAndNeverANan) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = Tensor::zeros({5, 37}, dtype);
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, -1.0);
    x.set(0 * 37 + 36, 2);
    x.set(1 * 37 + 20, 2), x.set(1 * 37 + 30, 2);
    x.set(2 * 37 + 0, NAN), x.set(2 * 37 + 9, 0);
    x.set(3 * 37 + 36, NAN), x.set(3 * 37 + 8, 0);
    for (int64_t i = 0; i < 37; ++i) x.set(4 * 37 + i, NAN);
    std::vector<int32_t> columns(5, -1);
    argmax_rows(x, columns.data());
    EXPECT_EQ(columns, (std::vector<int32_t>{36, 20, 9, 8, 0}));
  }
}

}  // namespace
}  // namespace ropewalk::testing
