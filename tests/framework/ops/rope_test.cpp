#include "framework/ops/rope.h"

#include <memory>

#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kFactor = 1.3;
constexpr int64_t kStart = 5;

std::vector<double> frequencies(int64_t dims) {
  std::vector<double> out;
  for (int64_t i = 0; i < dims; i += 2)
    out.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(dims)));
  return out;
}

// The tables outlive the tapes because the function holds them.
Function rope_of(int64_t dims, int64_t length, RopePairing pairing, bool twice = false) {
  const auto make = [&](DType dtype) {
    return std::make_shared<RotaryTable>(make_rotary_table(frequencies(dims), kFactor, kStart, length, pairing, dtype));
  };
  return [f32 = make(DType::f32), f64 = make(DType::f64), twice](Tape&, const std::vector<Var>& in) {
    const RotaryTable& table = in[0].dtype() == DType::f32 ? *f32 : *f64;
    return twice ? add(in[0], rope(in[0], table)) : rope(in[0], table);
  };
}

Tensor reference(const Tensor& x, int64_t dims, RopePairing pairing) {
  const int64_t width = x.shape[-1];
  Tensor y = copy(x);
  for (int64_t r = 0; r < x.shape.rows(); ++r) {
    const auto position = static_cast<double>(kStart + r % x.shape[2]);
    for (int64_t i = 0; i < dims / 2; ++i) {
      const int64_t first = r * width + (pairing == RopePairing::interleaved ? 2 * i : i);
      const int64_t second = pairing == RopePairing::interleaved ? first + 1 : first + dims / 2;
      const double angle = position * frequencies(dims)[static_cast<std::size_t>(i)];
      y.set(first, kFactor * (x.at(first) * std::cos(angle) - x.at(second) * std::sin(angle)));
      y.set(second, kFactor * (x.at(first) * std::sin(angle) + x.at(second) * std::cos(angle)));
    }
  }
  return y;
}

TEST(RopeTest, MatchesTheFormulaAndItsGradientsInBothPairings) {
  for (RopePairing pairing : {RopePairing::interleaved, RopePairing::split_half}) {
    for (int64_t dims : {2, 6, 34}) {
      for (int64_t width : {dims, dims + 3}) {
        const Tensor x = random_tensor({2, 1, 3, width}, DType::f64, 1);
        EXPECT_LT(relative_error(run(rope_of(dims, 3, pairing), {x}).value, reference(x, dims, pairing)), 1e-13);
        check_op(rope_of(dims, 3, pairing), {x});
        check_op(rope_of(dims, 3, pairing, true), {x});
      }
    }
  }
}

TEST(RopeTest, AnglesOfFarPositionsAreExact) {
  const double one = 1.0;
  const RotaryTable table = make_rotary_table({&one, 1}, 1.0, 1000003, 1, RopePairing::split_half, DType::f32);
  EXPECT_NEAR(table.cos.at(0), std::cos(1000003.0), 1e-7);
  EXPECT_NEAR(table.sin.at(0), std::sin(1000003.0), 1e-7);
}

TEST(RopeTest, ScalesQueriesAndKeysInverselyFromTheCentre) {
  const std::vector<double> rates = {-0.3, -0.02};
  constexpr double kCentre = 6.5;
  for (RopePairing pairing : {RopePairing::interleaved, RopePairing::split_half}) {
    const auto make = [&](DType dtype) {
      return make_rotary_table(frequencies(4), kFactor, kStart, 3, pairing, dtype, {rates, kCentre});
    };
    const RotaryTable tables[] = {make(DType::f32), make(DType::f64)};
    for (const RotarySide side : {RotarySide::queries, RotarySide::keys}) {
      const Function f = [&](Tape&, const std::vector<Var>& in) {
        return rope(in[0], tables[in[0].dtype() == DType::f32 ? 0 : 1], side);
      };
      const Tensor x = random_tensor({2, 1, 3, 5}, DType::f64, 1);
      Tensor expected = reference(x, 4, pairing);
      for (int64_t r = 0; r < x.shape.rows(); ++r) {
        for (int64_t c = 0; c < 4; ++c) {
          const auto pair = static_cast<std::size_t>(pairing == RopePairing::interleaved ? c / 2 : c % 2);
          const double growth = std::exp(rates[pair] * (static_cast<double>(kStart + r % 3) - kCentre));
          expected.set(r * 5 + c, expected.at(r * 5 + c) * (side == RotarySide::queries ? growth : 1 / growth));
        }
      }
      EXPECT_LT(relative_error(run(f, {x}).value, expected), 1e-13);
      check_op(f, {x});
    }
  }
}

TEST(RopeTest, ATableOfGivenPositionsHasTheRowsOfThose) {
  const std::vector<double> rates = {-0.3, -0.1};
  const RotaryScale scale{rates, 2.0};
  const RotaryTable all = make_rotary_table(frequencies(4), kFactor, 0, 9, RopePairing::split_half, DType::f64, scale);
  const std::vector<int32_t> positions = {0, 3, 4, 8};
  const RotaryTable some =
      make_rotary_table(frequencies(4), kFactor, positions, RopePairing::split_half, DType::f64, scale);
  for (const auto& [few, many] : {std::pair{&some.cos, &all.cos},
                                  {&some.sin, &all.sin},
                                  {&some.key_cos, &all.key_cos},
                                  {&some.key_sin, &all.key_sin}}) {
    ASSERT_EQ(few->shape, (Shape{4, 2}));
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(few->at(i), many->at(positions[static_cast<std::size_t>(i / 2)] * 2 + i % 2));
    }
  }
}

TEST(RopeTest, TablesOfOneScaleShareTheirMemory) {
  const RotaryTable table = make_rotary_table(frequencies(4), kFactor, 0, 3, RopePairing::interleaved, DType::f32);
  EXPECT_EQ(table.key_cos.bytes, table.cos.bytes);
  EXPECT_EQ(table.key_sin.bytes, table.sin.bytes);
}

TEST(RopeTest, RefusesRatesOfAnotherNumberOfPairs) {
  const std::vector<double> rates = {-0.3};
  EXPECT_THROW(make_rotary_table(frequencies(4), 1.0, 0, 3, RopePairing::interleaved, DType::f64, {rates, 0.0}), Error);
}

TEST(RopeTest, RefusesTablesThatDoNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  const Var x = tape.leaf(random_tensor({1, 1, 3, 4}, DType::f64, 1));
  const auto table = [](int64_t dims, int64_t count, DType dtype) {
    return make_rotary_table(frequencies(dims), 1.0, 0, count, RopePairing::interleaved, dtype);
  };
  EXPECT_THROW(rope(x, table(6, 3, DType::f64)), Error);
  EXPECT_THROW(rope(x, table(4, 2, DType::f64)), Error);
  EXPECT_THROW(rope(x, table(4, 3, DType::f32)), Error);
}

}  // namespace
}  // namespace ropewalk::testing
