#include "optim/adamw.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/error.h"
#include "optim/norms.h"
#include "tests/optim/parameters.h"
#include "tests/support/allocation_counter.h"

namespace ropewalk {
namespace {

using testing::fill_normal;
using testing::odd_parameters;
using testing::owner;

const OptimConfig kConfig{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.3};

/// AdamW as the paper writes it, one element at a time in double.
struct PlainAdamW {
  const ParameterSet& set;
  OptimConfig config;
  std::vector<double> p, m, v;

  PlainAdamW(const ParameterSet& parameters, const OptimConfig& c)
      : set(parameters), config(c), m(static_cast<std::size_t>(parameters.flat_elements())), v(m) {
    for (int64_t i = 0; i < set.flat_elements(); ++i) p.push_back(set.flat_values().at(i));
  }

  void step(const Tensor& gradient, double clip, double lr, int64_t s) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const int index = owner(set, static_cast<int64_t>(i));
      if (index < 0) continue;
      const Parameter& parameter = set[index];
      const double g = clip * gradient.at(static_cast<int64_t>(i));
      m[i] = config.beta1 * m[i] + (1 - config.beta1) * g;
      v[i] = config.beta2 * v[i] + (1 - config.beta2) * g * g;
      if (parameter.role == Role::weight) p[i] *= 1 - lr * config.weight_decay;
      const double mhat = m[i] / (1 - std::pow(config.beta1, static_cast<double>(s)));
      const double vhat = v[i] / (1 - std::pow(config.beta2, static_cast<double>(s)));
      p[i] -= lr * mhat / (std::sqrt(vhat) + config.eps);
      if (parameter.role == Role::positive && p[i] < parameter.floor) p[i] = parameter.floor;
    }
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.size_bytes() == b.size_bytes() && std::memcmp(a.bytes, b.bytes, a.size_bytes()) == 0;
}

class AdamWSteps : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  /// A set with random values (the same in both dtypes, up to rounding).
  ParameterSet start() const {
    ParameterSet set = odd_parameters(dtype());
    fill_normal(set, set.flat_values(), 1, 0.5);
    return set;
  }
  Tensor gradient(const ParameterSet& set, int64_t step) const {
    const Tensor flat = Tensor::zeros({set.flat_elements()}, dtype());
    fill_normal(set, flat, static_cast<uint64_t>(100 + step), step % 3 == 0 ? 1e-3 : 1.0);
    return flat;
  }
};
INSTANTIATE_TEST_SUITE_P(DTypes, AdamWSteps, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(AdamWSteps, FollowTheFormulaElementByElement) {
  const double tolerance = dtype() == DType::f32 ? 2e-6 : 1e-14;
  const ParameterSet set = start();
  AdamW optimizer(set, kConfig);
  PlainAdamW plain(set, kConfig);
  for (int64_t s = 1; s <= 10; ++s) {
    const Tensor g = gradient(set, s);
    const double lr = kConfig.lr / static_cast<double>(s);
    const double clip = s % 2 == 0 ? 1.0 : 0.37;
    optimizer.step(g, clip, lr, s);
    plain.step(g, clip, lr, s);
    for (int64_t i = 0; i < set.flat_elements(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      ASSERT_NEAR(set.flat_values().at(i), plain.p[k], tolerance) << "step " << s << " element " << i;
      ASSERT_NEAR(optimizer.first_moment().at(i), plain.m[k], tolerance) << "step " << s << " element " << i;
      ASSERT_NEAR(optimizer.second_moment().at(i), plain.v[k], tolerance) << "step " << s << " element " << i;
    }
  }
}

TEST_P(AdamWSteps, LeaveFrozenParametersAloneAndThenCountAnew) {
  const ParameterSet set = start();
  const ParameterSet late = start();
  AdamW frozen(set, kConfig);
  AdamW begun(late, kConfig);
  const std::vector<int64_t> frozen_steps(set.size(), 3);
  const Tensor before = Tensor::zeros({set.flat_elements()}, dtype());
  std::memcpy(before.bytes, set.flat_values().bytes, before.size_bytes());
  UpdateNorms norms(set.size());
  std::vector<double> expected(set.size());
  squared_norms(set, before, expected);
  for (int64_t s = 1; s <= 3; ++s) {
    frozen.step(gradient(set, s), 1.0, kConfig.lr, s, &norms, frozen_steps);
    EXPECT_TRUE(same_bits(set.flat_values(), before)) << s;
    for (std::size_t i = 0; i < set.size(); ++i) {
      EXPECT_NEAR(norms.values[i], expected[i], 1e-6 * expected[i]);
      EXPECT_EQ(norms.updates[i], 0);
    }
  }
  for (int64_t s = 4; s <= 6; ++s) {
    frozen.step(gradient(set, s), 1.0, kConfig.lr, s, &norms, frozen_steps);
    begun.step(gradient(set, s), 1.0, kConfig.lr, s - 3);
    EXPECT_TRUE(same_bits(set.flat_values(), late.flat_values())) << s;
  }
  EXPECT_THROW(frozen.step(gradient(set, 7), 1.0, kConfig.lr, 7, nullptr, std::vector<int64_t>{1}), Error);
}

TEST_P(AdamWSteps, FreezeOnlyThoseThatAreNamed) {
  const ParameterSet set = start();
  const ParameterSet free = start();
  AdamW some(set, kConfig);
  AdamW all(free, kConfig);
  std::vector<int64_t> frozen_steps(set.size(), 0);
  frozen_steps[1] = 5;
  some.step(gradient(set, 1), 1.0, kConfig.lr, 1, nullptr, frozen_steps);
  all.step(gradient(set, 1), 1.0, kConfig.lr, 1);
  for (int32_t i = 0; i < static_cast<int32_t>(set.size()); ++i) {
    EXPECT_EQ(same_bits(set.value(i), free.value(i)), i != 1) << set[i].name;
  }
}

TEST_P(AdamWSteps, DecayWeightsOnly) {
  const ParameterSet set = start();
  std::vector<double> before;
  for (int64_t i = 0; i < set.flat_elements(); ++i) before.push_back(set.flat_values().at(i));
  AdamW optimizer(set, kConfig);
  optimizer.step(Tensor::zeros({set.flat_elements()}, dtype()), 1.0, 0.01, 1);
  for (int64_t i = 0; i < set.flat_elements(); ++i) {
    const int p = owner(set, i);
    if (p < 0 || set[p].role == Role::positive) continue;
    const double old_value = before[static_cast<std::size_t>(i)];
    const double expected = set[p].role == Role::weight ? old_value * (1 - 0.01 * 0.3) : old_value;
    const double tolerance = dtype() == DType::f32 ? 1.2e-7 : 2.3e-16;
    ASSERT_NEAR(set.flat_values().at(i), expected, tolerance * std::abs(old_value)) << set[p].name;
    if (set[p].role == Role::other) {
      ASSERT_EQ(set.flat_values().at(i), old_value) << set[p].name;
    } else {
      ASSERT_LT(std::abs(set.flat_values().at(i)), std::abs(old_value)) << set[p].name;
    }
  }
}

TEST_P(AdamWSteps, KeepPositiveParametersAtTheirOwnFloorAndOthersFree) {
  const ParameterSet set = start();
  const Tensor up = Tensor::zeros({set.flat_elements()}, dtype());
  for (int64_t i = 0; i < up.elements(); ++i) up.set(i, owner(set, i) < 0 ? 0.0 : 1.0);
  AdamW optimizer(set, kConfig);
  for (int64_t s = 1; s <= 5; ++s) optimizer.step(up, 1.0, 1.0, s);
  for (int64_t i = 0; i < set.flat_elements(); ++i) {
    const int p = owner(set, i);
    if (p < 0) continue;
    const double value = set.flat_values().at(i);
    if (set[p].role == Role::positive) {
      EXPECT_EQ(value, dtype() == DType::f32 ? double{static_cast<float>(set[p].floor)} : set[p].floor) << set[p].name;
    } else {
      EXPECT_LT(value, -0.9) << set[p].name;
    }
  }
}

TEST_P(AdamWSteps, AreTheSameBitsWithNormsAndWithout) {
  const ParameterSet a = start();
  const ParameterSet b = start();
  AdamW with_norms(a, kConfig);
  AdamW without(b, kConfig);
  UpdateNorms norms(a.size());
  for (int64_t s = 1; s <= 10; ++s) {
    const Tensor g = gradient(a, s);
    with_norms.step(g, 0.7, 0.02, s, &norms);
    without.step(g, 0.7, 0.02, s);
    ASSERT_TRUE(same_bits(a.flat_values(), b.flat_values())) << "step " << s;
    ASSERT_TRUE(same_bits(with_norms.first_moment(), without.first_moment())) << "step " << s;
    ASSERT_TRUE(same_bits(with_norms.second_moment(), without.second_moment())) << "step " << s;
  }
}

TEST_P(AdamWSteps, ReportTheNormsOfNewValuesAndOfWhatChanged) {
  const ParameterSet set = start();
  AdamW optimizer(set, kConfig);
  UpdateNorms norms(set.size());
  for (int64_t s = 1; s <= 3; ++s) {
    const ParameterSet before = odd_parameters(dtype());
    std::memcpy(before.flat_values().bytes, set.flat_values().bytes, set.flat_values().size_bytes());
    optimizer.step(gradient(set, s), 1.0, 0.05, s, &norms);
    for (int32_t p = 0; p < static_cast<int32_t>(set.size()); ++p) {
      double values = 0;
      double updates = 0;
      for (int64_t i = 0; i < set[p].elements(); ++i) {
        const double now = set.value(p).at(i);
        const double change = now - before.value(p).at(i);
        values += now * now;
        updates += change * change;
      }
      const double tolerance = dtype() == DType::f32 ? 1e-6 : 1e-13;
      EXPECT_NEAR(norms.values[static_cast<std::size_t>(p)], values, 1e-13 * values) << set[p].name;
      EXPECT_NEAR(norms.updates[static_cast<std::size_t>(p)], updates, tolerance * updates) << set[p].name;
      EXPECT_GT(updates, 0) << set[p].name;
    }
  }
}

TEST_P(AdamWSteps, MultiplyTheGradientByTheClipFactor) {
  const ParameterSet a = start();
  const ParameterSet b = start();
  const Tensor g = gradient(a, 1);
  std::vector<double> squared(a.size());
  squared_norms(a, g, squared);
  const double clip = clip_factor(global_norm(squared), 1.0);
  ASSERT_LT(clip, 0.1);
  const Tensor clipped = Tensor::zeros(g.shape, dtype());
  for (int64_t i = 0; i < g.elements(); ++i) {
    clipped.set(i, dtype() == DType::f32 ? double{static_cast<float>(clip) * g.data<float>()[i]} : clip * g.at(i));
  }
  squared_norms(a, clipped, squared);
  EXPECT_NEAR(global_norm(squared), 1.0, dtype() == DType::f32 ? 1e-6 : 1e-14);
  AdamW(a, kConfig).step(g, clip, 0.01, 1);
  AdamW(b, kConfig).step(clipped, 1.0, 0.01, 1);
  EXPECT_TRUE(same_bits(a.flat_values(), b.flat_values()));
}

TEST_P(AdamWSteps, LeaveTheGapsOfTheLayoutAtZero) {
  const ParameterSet set = start();
  const Tensor ones = Tensor::zeros({set.flat_elements()}, dtype());
  for (int64_t i = 0; i < ones.elements(); ++i) ones.set(i, 1.0);
  AdamW optimizer(set, kConfig);
  for (int64_t s = 1; s <= 3; ++s) optimizer.step(ones, 1.0, 0.1, s);
  int64_t gaps = 0;
  for (int64_t i = 0; i < set.flat_elements(); ++i) {
    if (owner(set, i) >= 0) continue;
    ++gaps;
    EXPECT_EQ(set.flat_values().at(i), 0.0);
    EXPECT_EQ(optimizer.first_moment().at(i), 0.0);
    EXPECT_EQ(optimizer.second_moment().at(i), 0.0);
  }
  EXPECT_GT(gaps, 0);
}

TEST_P(AdamWSteps, CarryNaNFromGradientToValueAndMomentsEvenAtTheFloor) {
  const ParameterSet set = start();
  const Tensor g = gradient(set, 1);
  for (const char* name : {"token_embedding.weight", "kerple.rate", "norm.weight"}) {
    set.view(g, set.find(name)).set(2, std::numeric_limits<double>::quiet_NaN());
  }
  AdamW optimizer(set, kConfig);
  UpdateNorms norms(set.size());
  optimizer.step(g, 1.0, 0.01, 1, &norms);
  for (int64_t i = 0; i < set.flat_elements(); ++i) {
    EXPECT_EQ(std::isnan(set.flat_values().at(i)), std::isnan(g.at(i))) << "element " << i;
    EXPECT_EQ(std::isnan(optimizer.first_moment().at(i)), std::isnan(g.at(i))) << "element " << i;
    EXPECT_EQ(std::isnan(optimizer.second_moment().at(i)), std::isnan(g.at(i))) << "element " << i;
  }
  EXPECT_TRUE(std::isnan(norms.updates[static_cast<std::size_t>(set.find("kerple.rate"))]));
}

TEST_P(AdamWSteps, LetMomentsOfAnElementWithoutGradientDieOutWithoutSubnormals) {
  const ParameterSet set = start();
  AdamW optimizer(set, {.beta1 = 0.5, .beta2 = 0.5, .weight_decay = 0});
  optimizer.step(gradient(set, 1), 1.0, 0.01, 1);
  const Tensor none = Tensor::zeros({set.flat_elements()}, dtype());
  for (int64_t s = 2; s <= 1200; ++s) {
    optimizer.step(none, 1.0, 0.01, s);
    for (int64_t i = 0; i < set.flat_elements(); i += 7) {
      const int kind_m = dtype() == DType::f32 ? std::fpclassify(optimizer.first_moment().data<float>()[i])
                                               : std::fpclassify(optimizer.first_moment().data<double>()[i]);
      const int kind_v = dtype() == DType::f32 ? std::fpclassify(optimizer.second_moment().data<float>()[i])
                                               : std::fpclassify(optimizer.second_moment().data<double>()[i]);
      ASSERT_NE(kind_m, FP_SUBNORMAL) << "step " << s;
      ASSERT_NE(kind_v, FP_SUBNORMAL) << "step " << s;
    }
  }
  for (int64_t i = 0; i < set.flat_elements(); ++i) {
    ASSERT_EQ(optimizer.first_moment().at(i), 0.0);
    ASSERT_EQ(optimizer.second_moment().at(i), 0.0);
  }
}

TEST_P(AdamWSteps, ContinueBitForBitFromCopiedMoments) {
  const ParameterSet a = start();
  AdamW whole(a, kConfig);
  for (int64_t s = 1; s <= 3; ++s) whole.step(gradient(a, s), 1.0, 0.01, s);
  const ParameterSet b = odd_parameters(dtype());
  AdamW resumed(b, kConfig);
  const auto copy = [](const Tensor& to, const Tensor& from) { std::memcpy(to.bytes, from.bytes, from.size_bytes()); };
  copy(b.flat_values(), a.flat_values());
  copy(resumed.first_moment(), whole.first_moment());
  copy(resumed.second_moment(), whole.second_moment());
  for (int64_t s = 4; s <= 6; ++s) {
    whole.step(gradient(a, s), 1.0, 0.01, s);
    resumed.step(gradient(a, s), 1.0, 0.01, s);
  }
  EXPECT_TRUE(same_bits(a.flat_values(), b.flat_values()));
}

TEST_P(AdamWSteps, AllocateNothing) {
  const ParameterSet set = start();
  const Tensor g = gradient(set, 1);
  AdamW optimizer(set, kConfig);
  UpdateNorms norms(set.size());
  std::vector<double> squared(set.size());
  optimizer.step(g, 1.0, 0.01, 1, &norms);
  const std::size_t before = testing::allocations();
  squared_norms(set, g, squared);
  optimizer.step(g, clip_factor(global_norm(squared), 1.0), 0.01, 2);
  optimizer.step(g, 1.0, 0.01, 3, &norms);
  EXPECT_EQ(testing::allocations(), before);
}

TEST_P(AdamWSteps, RefuseWhatDoesNotFitAndChangeNothing) {
  const ParameterSet set = start();
  const ParameterSet untouched = start();
  AdamW optimizer(set, kConfig);
  const Tensor g = gradient(set, 1);
  const DType other = dtype() == DType::f32 ? DType::f64 : DType::f32;
  UpdateNorms too_small(set.size() - 1);
  EXPECT_THROW(optimizer.step(g, 1.0, 0.01, 0), Error);
  EXPECT_THROW(optimizer.step(Tensor::zeros({set.flat_elements() + 1}, dtype()), 1.0, 0.01, 1), Error);
  EXPECT_THROW(optimizer.step(Tensor::zeros({set.flat_elements()}, other), 1.0, 0.01, 1), Error);
  EXPECT_THROW(optimizer.step(g, 1.0, 0.01, 1, &too_small), Error);
  EXPECT_TRUE(same_bits(set.flat_values(), untouched.flat_values()));
}

TEST_P(AdamWSteps, RefuseSettingsThatDivideByZero) {
  const ParameterSet set = start();
  const auto with = [](auto change) {
    OptimConfig config = kConfig;
    change(config);
    return config;
  };
  EXPECT_THROW(AdamW(set, with([](OptimConfig& c) { c.beta1 = 1.0; })), Error);
  EXPECT_THROW(AdamW(set, with([](OptimConfig& c) { c.beta2 = 1.0; })), Error);
  EXPECT_THROW(AdamW(set, with([](OptimConfig& c) { c.beta2 = -0.1; })), Error);
  EXPECT_THROW(AdamW(set, with([](OptimConfig& c) { c.eps = 0.0; })), Error);
  EXPECT_NO_THROW(AdamW(set, with([](OptimConfig& c) { c.beta1 = c.beta2 = 0.0; })));
}

TEST(AdamW, RefusesParametersWithoutMemory) {
  ParameterSet set;
  set.add("weight", {3}, Role::weight);
  EXPECT_THROW(AdamW(set, kConfig), Error);
}

TEST(AdamW, StepsInFloatStayCloseToDouble) {
  const ParameterSet single = odd_parameters(DType::f32);
  const ParameterSet twice = odd_parameters(DType::f64);
  fill_normal(single, single.flat_values(), 1, 0.5);
  for (int64_t i = 0; i < single.flat_elements(); ++i) twice.flat_values().set(i, single.flat_values().at(i));
  AdamW float_optimizer(single, kConfig);
  AdamW double_optimizer(twice, kConfig);
  for (int64_t s = 1; s <= 200; ++s) {
    const Tensor g = Tensor::zeros({single.flat_elements()}, DType::f32);
    fill_normal(single, g, static_cast<uint64_t>(s), 1.0);
    const Tensor wide = Tensor::zeros({single.flat_elements()}, DType::f64);
    for (int64_t i = 0; i < g.elements(); ++i) wide.set(i, g.at(i));
    float_optimizer.step(g, 1.0, 1e-3, s);
    double_optimizer.step(wide, 1.0, 1e-3, s);
  }
  for (int64_t i = 0; i < single.flat_elements(); ++i) {
    ASSERT_NEAR(single.flat_values().at(i), twice.flat_values().at(i), 2e-6);
  }
}

// In f32 the factor 1 - 10.5 ulp is 1 - 10 ulp: multiplying by it would decay every weight 5 % too little.
TEST(AdamW, DecaysFloatsByTheRateAskedForOnAverageEvenWhenItIsTiny) {
  constexpr int64_t kValues = 1001;
  constexpr int64_t kSteps = 500;
  constexpr double kDecay = 10.5 * 0x1p-24;
  ParameterSet set;
  set.add("weight", {kValues}, Role::weight);
  set.allocate(DType::f32);
  const auto start = [](int64_t i) { return 1 + static_cast<double>(i) / kValues; };
  for (int64_t i = 0; i < kValues; ++i) set.flat_values().set(i, start(i));
  AdamW optimizer(set, {.weight_decay = 1.0});
  const Tensor none = Tensor::zeros({set.flat_elements()}, DType::f32);
  for (int64_t s = 1; s <= kSteps; ++s) optimizer.step(none, 1.0, kDecay, s);
  double decay = 0;
  for (int64_t i = 0; i < kValues; ++i) decay -= std::log(set.flat_values().at(i) / start(i)) / kValues;
  EXPECT_NEAR(decay / (kSteps * kDecay), 1.0, 0.015);
}

}  // namespace
}  // namespace ropewalk
