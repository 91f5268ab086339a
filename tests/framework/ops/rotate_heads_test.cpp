#include "framework/ops/rotate_heads.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/framework/gradient_check.h"

namespace ropewalk::testing {
namespace {

constexpr int64_t kRows = 6;
constexpr int64_t kStart = 2;
const std::vector<int64_t> kFirstToken = {0, 3, 7};

/// xPos: queries and keys are scaled apart.
RotaryTable table(DType dtype) {
  const std::vector<double> frequencies{1.0, 0.3};
  const std::vector<double> rates{0.2, -0.1};
  return make_rotary_table(frequencies, 1.1, 0, kStart + kRows, RopePairing::split_half, dtype,
                           {.rates = rates, .centre = 3.0});
}

/// Three heads of five columns, of which four turn, behind two columns of something else, in rows with room for more.
Heads heads_in(Var x) {
  return {x, 2, 3, 5, kRows};
}

TEST(RotateHeadsTest, TurnsEveryHeadAsRopeDoesAtItsPosition) {
  const RotaryTable angles = table(DType::f64);
  const Tensor x = random_tensor({3, kRows + 2, 20}, DType::f64, 1);
  for (const RotarySide side : {RotarySide::queries, RotarySide::keys}) {
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    const Tensor y = rotate_heads(heads_in(tape.constant(x)), angles, side, {kStart, kFirstToken}).value();
    ASSERT_TRUE(y.shape == Shape({3, kRows, 15}));
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t t = 0; t < kRows; ++t) {
        const int64_t position = kStart + t - kFirstToken[static_cast<std::size_t>(b)];
        for (int64_t h = 0; h < 3; ++h) {
          // rope() turns row t by row t of its table.
          const Tensor one = Tensor::zeros({1, 1, kStart + kRows, 5}, DType::f64);
          for (int64_t c = 0; position >= 0 && c < 5; ++c) {
            one.set(position * 5 + c, x.at((b * (kRows + 2) + t) * 20 + 2 + h * 5 + c));
          }
          const Tensor turned = rope(tape.constant(one), angles, side).value();
          for (int64_t c = 0; c < 5; ++c) {
            const double expected = position < 0 ? 0.0 : turned.at(position * 5 + c);
            EXPECT_EQ(y.at(((b * kRows + t) * 3 + h) * 5 + c), expected) << b << " " << t << " " << h;
          }
        }
      }
    }
  }
}

TEST(RotateHeadsTest, GradientsAreThoseOfDifferences) {
  const RotaryTable angles = table(DType::f64);
  const auto f = [&](Tape&, const std::vector<Var>& in) {
    return rotate_heads(heads_in(in[0]), angles, RotarySide::keys, {kStart, kFirstToken});
  };
  EXPECT_LT(gradient_error(f, {random_tensor({3, kRows + 2, 20}, DType::f64, 1)}), 2e-9);
}

TEST(RotateHeadsTest, PaddingIsNotRead) {
  const RotaryTable angles = table(DType::f64);
  const Tensor x = random_tensor({3, kRows + 2, 20}, DType::f64, 1);
  for (int64_t i = 0; i < 20; ++i) x.set((kRows + 2) * 20 + i, std::numeric_limits<double>::quiet_NaN());
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const Tensor y = rotate_heads(heads_in(tape.constant(x)), angles, RotarySide::keys, {kStart, kFirstToken}).value();
  for (int64_t i = 0; i < y.elements(); ++i) EXPECT_TRUE(std::isfinite(y.at(i)));
}

TEST(RotateHeadsTest, RefusesWhatDoesNotFit) {
  const RotaryTable angles = table(DType::f64);
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](DType dtype) { return tape.constant(Tensor::zeros({3, kRows + 2, 20}, dtype)); };
  const Var x = make(DType::f64);
  EXPECT_NO_THROW(rotate_heads(heads_in(x), angles, RotarySide::keys, {kStart, {}}));
  EXPECT_THROW(rotate_heads(heads_in(x), angles, RotarySide::keys, {kStart + 1, {}}), Error) << "beyond the table";
  EXPECT_THROW(rotate_heads(Heads{x, 0, 3, 3}, angles, RotarySide::keys), Error) << "narrower than what turns";
  EXPECT_THROW(rotate_heads(heads_in(make(DType::f32)), angles, RotarySide::keys), Error);
  const std::vector<int64_t> two = {0, 1};
  EXPECT_THROW(rotate_heads(heads_in(x), angles, RotarySide::keys, {0, two}), Error);
}

}  // namespace
}  // namespace ropewalk::testing
