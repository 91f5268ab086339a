#include "train/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "framework/error.h"

namespace ropewalk {
namespace {

Tensor logits_of(const std::vector<double>& values, DType dtype = DType::f64) {
  Tensor out = Tensor::zeros({1, static_cast<int64_t>(values.size())}, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

/// How often each token is chosen at `draws` positions.
std::map<int32_t, double> shares(const std::vector<double>& logits, const Sampling& sampling, int64_t draws = 20000) {
  const Tensor row = logits_of(logits);
  Sampler sampler(sampling);
  std::map<int32_t, double> out;
  for (int64_t i = 0; i < draws; ++i) out[sampler.choose(row, 0, 0, i)] += 1.0 / static_cast<double>(draws);
  return out;
}

std::vector<int32_t> support(const std::vector<double>& logits, const Sampling& sampling) {
  std::vector<int32_t> out;
  for (const auto& [token, share] : shares(logits, sampling, 2000)) out.push_back(token);
  return out;
}

TEST(Sampling, TemperatureZeroTakesTheGreatestAndTheLowestOfEqualIds) {
  for (int64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(Sampler({.temperature = 0}).choose(logits_of({1, 3, -2, 3}), 0, 0, position), 1);
  }
}

TEST(Sampling, SharesAreTheSoftmaxOfTheLogitsOverTheTemperature) {
  const std::vector<double> logits = {0.0, std::log(2.0), std::log(5.0)};
  for (const double temperature : {1.0, 0.5, 2.0}) {
    double sum = 0;
    for (const double x : logits) sum += std::exp(x / temperature);
    const auto measured = shares(logits, {.temperature = temperature});
    for (int32_t i = 0; i < 3; ++i) {
      const double expected = std::exp(logits[static_cast<std::size_t>(i)] / temperature) / sum;
      EXPECT_NEAR(measured.at(i), expected, 0.015) << i << " at " << temperature;
    }
  }
  EXPECT_EQ(support(logits, {.temperature = 1e-300}), std::vector<int32_t>{2});
}

TEST(Sampling, TopKKeepsExactlyKAndOfEqualOnesTheLowestIds) {
  const std::vector<double> logits = {1, 2, 1, 2, 1};
  EXPECT_EQ(support(logits, {.top_k = 1}), std::vector<int32_t>{1});
  EXPECT_EQ(support(logits, {.top_k = 2}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(support(logits, {.top_k = 3}), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(support(logits, {.top_k = 4}), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(Sampling, TopPKeepsTheFewestThatReachP) {
  // Probabilities 1/2, 1/4, 1/8, 1/8, exact in binary.
  const std::vector<double> logits = {std::log(1.0), std::log(4.0), std::log(2.0), std::log(1.0)};
  EXPECT_EQ(support(logits, {.top_p = 0}), std::vector<int32_t>{1}) << "at least one";
  EXPECT_EQ(support(logits, {.top_p = 0.49}), std::vector<int32_t>{1});
  EXPECT_EQ(support(logits, {.top_p = 0.51}), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(support(logits, {.top_p = 0.76}), (std::vector<int32_t>{0, 1, 2})) << "of equal ones the lower id";
  EXPECT_EQ(support(logits, {.top_p = 0.9}), (std::vector<int32_t>{0, 1, 2, 3}));
  const auto measured = shares(logits, {.top_p = 0.7});
  EXPECT_NEAR(measured.at(1), 2.0 / 3, 0.015) << "what stays is drawn by its own proportions";
}

TEST(Sampling, TheRulesActInTheirOrder) {
  // The temperature comes before top_p: at 1/2 the probabilities 4 : 2 : 1 become 16 : 4 : 1, of which the first has 76
  // %.
  const std::vector<double> logits = {std::log(4.0), std::log(2.0), std::log(1.0)};
  EXPECT_EQ(support(logits, {.top_p = 0.7}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(support(logits, {.temperature = 0.5, .top_p = 0.7}), std::vector<int32_t>{0});
  // top_k comes before top_p: of the two that it leaves the first has 2/3.
  EXPECT_EQ(support(logits, {.top_p = 0.6}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(support(logits, {.top_k = 2, .top_p = 0.6}), std::vector<int32_t>{0});
}

TEST(Sampling, RulesThatLeaveEverythingChangeNothing) {
  const Tensor row = logits_of({0.3, -1.2, 2.0, 0.3, 1.1, -0.4});
  for (int64_t position = 0; position < 200; ++position) {
    const int32_t plain = Sampler({}).choose(row, 0, 3, position);
    EXPECT_EQ(Sampler({.top_k = 6}).choose(row, 0, 3, position), plain);
    EXPECT_EQ(Sampler({.top_k = 600}).choose(row, 0, 3, position), plain);
    EXPECT_EQ(Sampler({.top_p = 1}).choose(row, 0, 3, position), plain);
  }
}

TEST(Sampling, TheDrawDependsOnSeedSequenceAndPositionAlone) {
  const Tensor row = logits_of(std::vector<double>(100, 0.0));
  Sampler sampler({.seed = 4});
  const int32_t once = sampler.choose(row, 0, 2, 7);
  sampler.choose(row, 0, 1, 1);
  EXPECT_EQ(sampler.choose(row, 0, 2, 7), once);
  EXPECT_EQ(Sampler({.seed = 4}).choose(row, 0, 2, 7), once);
  std::map<int32_t, int> seen;
  for (int64_t i = 0; i < 10; ++i) {
    ++seen[sampler.choose(row, 0, 2, i)];
    ++seen[sampler.choose(row, 0, i + 3, 7)];
    ++seen[Sampler({.seed = static_cast<uint64_t>(i + 5)}).choose(row, 0, 2, 7)];
  }
  EXPECT_GT(seen.size(), 15U) << "30 draws of 100 equal tokens";
}

TEST(Sampling, WhatIsNoDistributionIsRefused) {
  for (const double bad : {std::nan(""), double(INFINITY), -double(INFINITY)}) {
    for (const double temperature : {0.0, 1.0}) {
      EXPECT_THROW(Sampler({.temperature = temperature}).choose(logits_of({1, bad, 0}), 0, 0, 0), Error) << bad;
    }
  }
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = std::nan("")}), Error);
  EXPECT_THROW(Sampler({.top_k = -1}), Error);
  EXPECT_THROW(Sampler({.top_p = 1.5}), Error);
  EXPECT_THROW(Sampler({.top_p = std::nan("")}), Error);
}

}  // namespace
}  // namespace ropewalk
