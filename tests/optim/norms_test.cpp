#include "optim/norms.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "tests/optim/parameters.h"

namespace ropewalk {
namespace {

using testing::fill_normal;
using testing::odd_parameters;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Norms : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Norms, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Norms, AreTheSumsOfSquaresOfEachParameter) {
  const ParameterSet set = odd_parameters(GetParam());
  fill_normal(set, set.flat_values(), 1, 3.0);
  std::vector<double> squared(set.size());
  squared_norms(set, set.flat_values(), squared);
  for (int32_t p = 0; p < static_cast<int32_t>(set.size()); ++p) {
    double expected = 0;
    for (int64_t i = 0; i < set[p].elements(); ++i) expected += set.value(p).at(i) * set.value(p).at(i);
    EXPECT_NEAR(squared[static_cast<std::size_t>(p)], expected, 1e-13 * expected) << set[p].name;
  }
}

TEST_P(Norms, ReadNothingOutsideTheirParameter) {
  const ParameterSet set = odd_parameters(GetParam());
  const Tensor flat = Tensor::zeros({set.flat_elements()}, GetParam());
  for (int64_t i = 0; i < flat.elements(); ++i) flat.set(i, testing::owner(set, i) < 0 ? kNaN : 2.0);
  std::vector<double> squared(set.size());
  squared_norms(set, flat, squared);
  for (int32_t p = 0; p < static_cast<int32_t>(set.size()); ++p) {
    EXPECT_EQ(squared[static_cast<std::size_t>(p)], 4.0 * static_cast<double>(set[p].elements())) << set[p].name;
  }
}

TEST_P(Norms, OfParametersHaveSquaresThatSumToTheSquareOfTheGlobalNorm) {
  const ParameterSet set = odd_parameters(GetParam());
  fill_normal(set, set.flat_values(), 2, 0.1);
  std::vector<double> squared(set.size());
  squared_norms(set, set.flat_values(), squared);
  double sum = 0;
  for (double square : squared) sum += square;
  EXPECT_EQ(global_norm(squared), std::sqrt(sum));
  double direct = 0;
  for (int64_t i = 0; i < set.flat_elements(); ++i) direct += set.flat_values().at(i) * set.flat_values().at(i);
  EXPECT_NEAR(global_norm(squared), std::sqrt(direct), 1e-13 * std::sqrt(direct));
}

TEST_P(Norms, ShowNonFiniteElementsInTheParameterThatHoldsThem) {
  for (double bad : {kNaN, kInfinity, -kInfinity}) {
    const ParameterSet set = odd_parameters(GetParam());
    fill_normal(set, set.flat_values(), 3, 1.0);
    const int32_t sick = set.find("value.weight");
    for (int64_t i = 0; i < set[sick].elements(); ++i) {
      const double healthy = set.value(sick).at(i);
      set.value(sick).set(i, bad);
      std::vector<double> squared(set.size());
      squared_norms(set, set.flat_values(), squared);
      for (int32_t p = 0; p < static_cast<int32_t>(set.size()); ++p) {
        EXPECT_EQ(std::isfinite(squared[static_cast<std::size_t>(p)]), p != sick) << set[p].name;
      }
      EXPECT_FALSE(std::isfinite(global_norm(squared)));
      set.value(sick).set(i, healthy);
    }
  }
}

TEST_P(Norms, RefuseABufferOfAnotherSizeAndTooLittleRoom) {
  const ParameterSet set = odd_parameters(GetParam());
  std::vector<double> squared(set.size());
  EXPECT_THROW(squared_norms(set, Tensor::zeros({set.flat_elements() - 1}, GetParam()), squared), Error);
  squared.pop_back();
  EXPECT_THROW(squared_norms(set, set.flat_values(), squared), Error);
}

TEST(NormsOfFloats, NeitherOverflowNorVanishInTheSquare) {
  ParameterSet set;
  set.add("large", {37}, Role::weight);
  set.add("small", {37}, Role::weight);
  set.allocate(DType::f32);
  for (int64_t i = 0; i < 37; ++i) {
    set.value(0).set(i, 1e30);
    set.value(1).set(i, 1e-30);
  }
  std::vector<double> squared(2);
  squared_norms(set, set.flat_values(), squared);
  EXPECT_NEAR(squared[0], 37e60, 1e55);
  EXPECT_NEAR(squared[1], 37e-60, 1e-65);
}

TEST(GlobalNorm, OfNothingIsZero) {
  EXPECT_EQ(global_norm({}), 0.0);
}

TEST(ClipFactor, BringsALargerNormToExactlyTheLimitAndLeavesSmallerOnesAlone) {
  EXPECT_EQ(clip_factor(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_factor(3.0, 0.5), 0.5 / 3.0);
  EXPECT_EQ(clip_factor(1.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(std::nextafter(1.0, 0.0), 1.0), 1.0);
  EXPECT_LT(clip_factor(1.0 + 1e-15, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

TEST(ClipFactor, IsOneWithoutALimit) {
  EXPECT_EQ(clip_factor(1e300, 0.0), 1.0);
  EXPECT_EQ(clip_factor(kInfinity, 0.0), 1.0);
}

TEST(ClipFactor, OfANormThatIsNotFinite) {
  EXPECT_EQ(clip_factor(kInfinity, 1.0), 0.0);
  EXPECT_EQ(clip_factor(kNaN, 1.0), 1.0);
}

}  // namespace
}  // namespace ropewalk
