#include "framework/ops/select_top_k.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "framework/ops/hadamard.h"
#include "framework/ops/index_scores.h"
#include "tests/framework/instruction_sets.h"

namespace ropewalk::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Rows = std::vector<std::vector<int32_t>>;

Rows rows_of(const SelectedKeys& selected) {
  Rows out;
  for (int64_t b = 0; b < selected.sequences; ++b) {
    for (int64_t t = 0; t < selected.queries; ++t) {
      out.emplace_back(selected.row(b, t), selected.row(b, t) + selected.width);
    }
  }
  return out;
}

/// As the oracle does it: a stable sort of all visible keys by falling score.
Rows reference(const Tensor& scores, int64_t top_k, const AttentionMask& mask) {
  const int64_t queries = scores.shape[1];
  const int64_t keys = scores.shape[2];
  Rows out;
  for (int64_t row = 0; row < scores.shape.rows(); ++row) {
    const int64_t i = keys - queries + row % queries;
    std::vector<int32_t> order;
    for (int64_t j = 0; j < keys; ++j) {
      if (mask.visible(i, j)) order.push_back(static_cast<int32_t>(j));
    }
    const auto score = [&](int32_t j) {
      const double x = scores.at(row * keys + j);
      return std::isnan(x) ? std::pair{0, 0.0} : std::pair{1, x};
    };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return score(a) > score(b); });
    order.resize(std::min(order.size(), static_cast<std::size_t>(top_k)));
    std::sort(order.begin(), order.end());
    order.resize(static_cast<std::size_t>(std::min(top_k, keys)), -1);
    out.push_back(order);
  }
  return out;
}

Rows selected_of(const Tensor& scores, int64_t top_k, const AttentionMask& mask) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  return rows_of(select_top_k(tape.leaf(scores), top_k, mask));
}

Rows selected_of(const std::vector<Tensor>& in, int64_t top_k, const AttentionMask& mask,
                 IndexPrecision precision = IndexPrecision::f32) {
  Workspace workspace;
  Tape tape(workspace, Mode::train);
  return rows_of(select_top_k(tape.leaf(in[0]), tape.leaf(in[1]), tape.leaf(in[2]), top_k, mask, precision));
}

Tensor scores_of(const std::vector<Tensor>& in) {
  return run([](Tape&, const std::vector<Var>& x) { return index_scores(x[0], x[1], x[2]); }, in).value;
}

struct Sizes {
  int64_t B, T, S, heads, d;
};

std::vector<Tensor> operands(const Sizes& z, DType dtype) {
  return {random_tensor({z.B, z.T, z.heads * z.d}, dtype, 1), random_tensor({z.B, z.S, z.d}, dtype, 2),
          random_tensor({z.B, z.T, z.heads}, dtype, 3)};
}

std::vector<AttentionMask> masks() {
  return {{.causal = true}, {.causal = false}, {true, 0, 0},   {true, 3, 0}, {true, 5, 2},   {false, 4, 3},
          {false, 0, 1},    {true, 2, 99},     {true, 140, 0}, {true, 9, 7}, {false, 70, 60}};
}

TEST(SelectTopKTest, ChoosesTheGreatestScoresOfVisibleKeys) {
  for (const auto& [T, S] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {1, 13}, {20, 33}, {40, 300}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor scores = random_tensor({2, T, S}, dtype, 5);
      const std::vector<Tensor> in = operands({2, T, S, 3, 6}, dtype);
      const Tensor made = scores_of(in);
      for (const AttentionMask& mask : masks()) {
        for (const int64_t k : {1, 2, 5, 16, 1000}) {
          ASSERT_EQ(selected_of(scores, k, mask), reference(scores, k, mask)) << T << " of " << S << ", k " << k;
          ASSERT_EQ(selected_of(in, k, mask), reference(made, k, mask)) << T << " of " << S << ", k " << k;
        }
      }
    }
  }
}

TEST(SelectTopKTest, PositionsOfUnequalSequencesCountFromTheirFirstKeys) {
  const std::vector<int64_t> first_key = {0, 5, 12, 3};
  const std::vector<int64_t> key_end = {12, 12, 12, 8};
  const std::vector<Tensor> in = operands({4, 7, 12, 2, 4}, DType::f64);
  const Tensor scores = scores_of(in);
  for (const AttentionMask& mask : masks()) {
    for (const int64_t k : {1, 3, 20}) {
      Workspace workspace;
      Tape tape(workspace, Mode::inference);
      const SelectedKeys selected = select_top_k(tape.constant(in[0]), tape.constant(in[1]), tape.constant(in[2]), k,
                                                 mask, IndexPrecision::f32, {first_key, key_end});
      const Rows rows = rows_of(selected);
      for (int64_t b = 0; b < 4; ++b) {
        const int64_t begin = first_key[static_cast<std::size_t>(b)];
        const int64_t keys = key_end[static_cast<std::size_t>(b)] - begin;
        for (int64_t t = 0; t < 7; ++t) {
          const int64_t i = 5 + t - begin;
          std::vector<std::pair<double, int32_t>> order;
          for (int64_t j = 0; i >= 0 && j < keys; ++j) {
            if (!mask.visible(i, j)) continue;
            order.emplace_back(-scores.at((b * 7 + t) * 12 + begin + j), static_cast<int32_t>(j));
          }
          std::sort(order.begin(), order.end());
          std::vector<int32_t> expected;
          for (std::size_t n = 0; n < order.size() && n < static_cast<std::size_t>(k); ++n) {
            expected.push_back(order[n].second);
          }
          std::sort(expected.begin(), expected.end());
          expected.resize(static_cast<std::size_t>(selected.width), -1);
          ASSERT_EQ(rows[static_cast<std::size_t>(b * 7 + t)], expected) << "sequence " << b << ", query " << t;
        }
      }
    }
  }
}

TEST(SelectTopKTest, ASequenceWhoseFirstTokenIsToComeSelectsNothing) {
  const std::vector<Tensor> in = operands({2, 5, 9, 2, 4}, DType::f64);
  const std::vector<int64_t> first_key = {11, 2};
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  for (const IndexPrecision precision : {IndexPrecision::f32, IndexPrecision::int8}) {
    const SelectedKeys selected =
        select_top_k(tape.constant(in[0]), tape.constant(in[1]), tape.constant(in[2]), 3, {}, precision, {first_key});
    for (int64_t t = 0; t < 5; ++t) {
      EXPECT_EQ(selected.count(0, t), 0);
      EXPECT_EQ(selected.count(1, t), 3);
    }
  }
}

TEST(SelectTopKTest, TiesGoToTheLowerPosition) {
  Tensor scores = Tensor::zeros({1, 1, 6}, DType::f32);
  const AttentionMask all{.causal = false};
  EXPECT_EQ(selected_of(scores, 3, all), (Rows{{0, 1, 2}}));
  scores.set(1, -0.0);
  scores.set(3, -0.0);
  EXPECT_EQ(selected_of(scores, 3, all), (Rows{{0, 1, 2}})) << "-0 equals +0";
  scores.set(5, 2.0);
  scores.set(0, -1.0);
  EXPECT_EQ(selected_of(scores, 3, all), (Rows{{1, 2, 5}}));
  // Many ties: whole numbers only.
  const Tensor noise = random_tensor({2, 30, 200}, DType::f64, 1);
  for (int64_t i = 0; i < noise.elements(); ++i) noise.set(i, std::round(noise.at(i)));
  for (const AttentionMask& mask : masks()) {
    for (const int64_t k : {1, 7, 60}) ASSERT_EQ(selected_of(noise, k, mask), reference(noise, k, mask));
  }
}

TEST(SelectTopKTest, FewerVisibleKeysThanKAreAllChosenAndNeverAliased) {
  const Rows rows = selected_of(operands({1, 5, 5, 2, 4}, DType::f32), 3, {});
  EXPECT_EQ(rows[0], (std::vector<int32_t>{0, -1, -1}));
  EXPECT_EQ(rows[1], (std::vector<int32_t>{0, 1, -1}));
  EXPECT_EQ(rows[2], (std::vector<int32_t>{0, 1, 2}));
  for (const std::vector<int32_t>& row : selected_of(operands({2, 20, 50, 2, 4}, DType::f32), 9, {true, 3, 2})) {
    EXPECT_EQ(std::count(row.begin(), row.end(), -1), 3) << "4 in the window and 2 global tokens";
    EXPECT_EQ(std::count(row.begin(), row.end(), 0), 1);
  }
}

TEST(SelectTopKTest, NansAndInfinitiesChooseNoHiddenKey) {
  const double worst[] = {NAN, kInfinity, -kInfinity, -NAN};
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor scores = random_tensor({1, 24, 24}, dtype, 1);
    for (int64_t i = 0; i < scores.elements(); i += 3) scores.set(i, worst[i / 3 % 4]);
    for (const AttentionMask& mask : masks()) {
      for (const int64_t k : {1, 4, 20}) ASSERT_EQ(selected_of(scores, k, mask), reference(scores, k, mask));
    }
    const Tensor nothing = Tensor::zeros({1, 24, 24}, dtype);
    for (int64_t i = 0; i < nothing.elements(); ++i) nothing.set(i, NAN);
    EXPECT_EQ(selected_of(nothing, 4, {})[20], (std::vector<int32_t>{0, 1, 2, 3}));
    for (const double x : worst) {
      for (std::size_t operand = 0; operand < 3; ++operand) {
        for (const IndexPrecision precision : {IndexPrecision::f32, IndexPrecision::int8}) {
          const std::vector<Tensor> in = operands({2, 24, 24, 2, 4}, dtype);
          for (int64_t i = 0; i < in[operand].elements(); i += 5) in[operand].set(i, x);
          const Rows rows = selected_of(in, 6, {true, 9, 1}, precision);
          for (std::size_t r = 0; r < rows.size(); ++r) {
            const auto i = static_cast<int64_t>(r % 24);
            int64_t chosen = 0;
            for (std::size_t n = 0; n < rows[r].size() && rows[r][n] >= 0; ++n, ++chosen) {
              EXPECT_TRUE((AttentionMask{true, 9, 1}.visible(i, rows[r][n])));
              if (n > 0) {
                EXPECT_GT(rows[r][n], rows[r][n - 1]);
              }
            }
            EXPECT_EQ(chosen, std::min<int64_t>(i + 1, 6));
          }
        }
      }
    }
  }
}

TEST(SelectTopKTest, WhatIsHiddenDoesNotMatter) {
  const Sizes z{1, 10, 150, 2, 4};
  const AttentionMask mask{true, 20, 0};
  const std::vector<Tensor> in = operands(z, DType::f32);
  const Rows expected = selected_of(in, 5, mask);
  for (const double x : {double{NAN}, kInfinity, 3e38}) {
    std::vector<Tensor> poisoned = in;
    poisoned[1] = copy(in[1]);
    for (int64_t i = 0; i < (150 - 10 - 20) * z.d; ++i) poisoned[1].set(i, x);
    EXPECT_EQ(selected_of(poisoned, 5, mask), expected);
    EXPECT_EQ(selected_of(poisoned, 5, mask, IndexPrecision::int8), selected_of(in, 5, mask, IndexPrecision::int8));
  }
}

/// The formula of the header, with integers as integers.
Tensor quantized_scores(const Sizes& z, const std::vector<Tensor>& in) {
  const auto quantize = [&](const Tensor& x, int64_t row, std::vector<int32_t>& n) {
    float largest = 0;
    for (int64_t c = 0; c < z.d; ++c) largest = std::max(largest, std::abs(x.data<float>()[row * z.d + c]));
    const float scale = largest / 127.0F;
    n.clear();
    for (int64_t c = 0; c < z.d; ++c) {
      n.push_back(static_cast<int32_t>(std::nearbyint(x.data<float>()[row * z.d + c] / scale)));
    }
    EXPECT_LE(*std::max_element(n.begin(), n.end()), 127);
    EXPECT_GE(*std::min_element(n.begin(), n.end()), -127);
    return scale;
  };
  const Tensor out = Tensor::zeros({z.B, z.T, z.S}, DType::f32);
  std::vector<int32_t> q;
  std::vector<int32_t> k;
  for (int64_t row = 0; row < z.B * z.T; ++row) {
    for (int64_t s = 0; s < z.S; ++s) {
      const float key_scale = quantize(in[1], row / z.T * z.S + s, k);
      float sum = 0;
      for (int64_t h = 0; h < z.heads; ++h) {
        const float weight = in[2].data<float>()[row * z.heads + h] * quantize(in[0], row * z.heads + h, q);
        const int32_t product = std::inner_product(q.begin(), q.end(), k.begin(), 0);
        sum = std::fma(weight, static_cast<float>(std::max(product, 0)), sum);
      }
      out.set(row * z.S + s, sum * key_scale);
    }
  }
  return out;
}

TEST(SelectTopKTest, Int8ChoosesByTheQuantizedScores) {
  for (const Sizes& z : {Sizes{2, 9, 9, 3, 8}, {1, 20, 150, 2, 33}, {1, 3, 10, 1, 1040}}) {
    const std::vector<Tensor> in = operands(z, DType::f32);
    const Tensor scores = quantized_scores(z, in);
    for (const AttentionMask& mask : masks()) {
      for (const int64_t k : {1, 4, 30}) {
        ASSERT_EQ(selected_of(in, k, mask, IndexPrecision::int8), reference(scores, k, mask));
      }
    }
    // In f64 the operands are quantized from f64, to the same integers but for rounding.
    std::vector<Tensor> wide;
    for (const Tensor& x : in) wide.push_back(cast(x, DType::f64));
    const Rows narrow_rows = selected_of(in, 4, {}, IndexPrecision::int8);
    const Rows wide_rows = selected_of(wide, 4, {}, IndexPrecision::int8);
    int64_t same = 0;
    for (std::size_t r = 0; r < wide_rows.size(); ++r) same += static_cast<int64_t>(wide_rows[r] == narrow_rows[r]);
    EXPECT_GE(static_cast<double>(same), 0.9 * static_cast<double>(wide_rows.size()));
  }
}

TEST(SelectTopKTest, Int8RoundsTiesToEvenAndKeepsZeroRows) {
  // Keys (127, 0.5), (127, 1.5) and zeros, of scale 1: the second column, which the query reads, becomes 0, 2 and 0.
  const Tensor q = Tensor::zeros({1, 1, 2}, DType::f32);
  q.set(1, 127);
  const Tensor k = Tensor::zeros({1, 3, 2}, DType::f32);
  for (const int64_t j : {0, 1}) k.set(2 * j, 127);
  k.set(1, 0.5);
  k.set(3, 1.5);
  const Tensor w = Tensor::zeros({1, 1, 1}, DType::f32);
  w.set(0, 1.0);
  const AttentionMask all{.causal = false};
  EXPECT_EQ(selected_of({q, k, w}, 1, all, IndexPrecision::int8), (Rows{{1}}));
  w.set(0, -1.0);
  EXPECT_EQ(selected_of({q, k, w}, 1, all, IndexPrecision::int8), (Rows{{0}})) << "0.5 ties with the row of zeros";
  EXPECT_EQ(selected_of({q, k, w}, 1, all), (Rows{{2}}));
}

TEST(SelectTopKTest, AHadamardRotationChangesNoSelectionAndHelpsInt8) {
  // Outliers in one column: the scale of a row is theirs, and the rest of it is rounded away.
  const Sizes z{1, 64, 256, 1, 64};
  std::vector<Tensor> in = operands(z, DType::f64);
  for (int64_t r = 0; r < z.T; ++r) in[0].set(r * z.d + 5, 0.02 * in[0].at(r * z.d + 5));
  for (int64_t r = 0; r < z.S; ++r) in[1].set(r * z.d + 5, 300 * in[1].at(r * z.d + 5));
  const auto rotated = [&](const Tensor& x) {
    const int64_t rows = x.elements() / z.d;
    const Tensor flat = x.reshaped({rows, z.d});
    return run([](Tape&, const std::vector<Var>& v) { return hadamard(v[0]); }, {flat}).value.reshaped(x.shape);
  };
  const std::vector<Tensor> turned = {rotated(in[0]), rotated(in[1]), in[2]};
  const AttentionMask all{.causal = false};
  const Rows exact = selected_of(in, 16, all);
  EXPECT_EQ(selected_of(turned, 16, all), exact);
  const auto recall = [&](const Rows& rows) {
    std::size_t found = 0;
    std::size_t of = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<int32_t> both;
      std::set_intersection(rows[r].begin(), rows[r].end(), exact[r].begin(), exact[r].end(), std::back_inserter(both));
      found += both.size();
      of += exact[r].size();
    }
    return static_cast<double>(found) / static_cast<double>(of);
  };
  const double plain = recall(selected_of(in, 16, all, IndexPrecision::int8));
  const double with_rotation = recall(selected_of(turned, 16, all, IndexPrecision::int8));
  EXPECT_LT(plain, 0.9);
  EXPECT_GT(with_rotation, plain + 0.05);
}

TEST(SelectTopKTest, AHadamardRotationChangesNoSelectionInF32) {
  // Rounding differs; what is chosen then is the same where no score is so close to the least that is chosen.
  const Sizes z{2, 30, 200, 4, 32};
  const std::vector<Tensor> in = operands(z, DType::f32);
  const auto rotated = [&](const Tensor& x) {
    return run([&](Tape&, const std::vector<Var>& v) { return hadamard(v[0], z.d); }, {x}).value;
  };
  const std::vector<Tensor> turned = {rotated(in[0]), rotated(in[1]), in[2]};
  const Tensor scores = scores_of(in);
  const AttentionMask causal{};
  std::size_t apart = 0;
  const Rows plain = selected_of(in, 16, causal);
  const Rows same = selected_of(turned, 16, causal);
  for (std::size_t row = 0; row < plain.size(); ++row) {
    std::vector<double> sorted;
    const int64_t visible = z.S - z.T + static_cast<int64_t>(row) % z.T + 1;
    for (int64_t j = 0; j < visible; ++j) sorted.push_back(scores.at(static_cast<int64_t>(row) * z.S + j));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    if (sorted[15] - sorted[16] < 1e-5) continue;
    ++apart;
    EXPECT_EQ(same[row], plain[row]) << row;
  }
  EXPECT_GT(apart, plain.size() * 9 / 10);
}

TEST(SelectTopKTest, AgreesOnEveryInstructionSet) {
  const std::vector<Tensor> in = operands({2, 20, 150, 3, 8}, DType::f64);
  const Rows expected = selected_of(in, 7, {});
  for_each_instruction_set([&](int64_t) { EXPECT_EQ(selected_of(in, 7, {}), expected); });
}

TEST(SelectTopKTest, AQueryAloneChoosesWhatItChoseInAFullPass) {
  const Sizes z{1, 40, 40, 2, 8};
  const std::vector<Tensor> in = operands(z, DType::f32);
  for (const IndexPrecision precision : {IndexPrecision::f32, IndexPrecision::int8}) {
    const Rows full = selected_of(in, 5, {}, precision);
    for (int64_t t = 0; t < z.T; ++t) {
      const std::vector<Tensor> one = {Tensor::zeros({1, 1, z.heads * z.d}, DType::f32),
                                       Tensor::zeros({1, t + 1, z.d}, DType::f32),
                                       Tensor::zeros({1, 1, z.heads}, DType::f32)};
      for (int64_t i = 0; i < one[0].elements(); ++i) one[0].set(i, in[0].at(t * z.heads * z.d + i));
      for (int64_t i = 0; i < one[1].elements(); ++i) one[1].set(i, in[1].at(i));
      for (int64_t i = 0; i < one[2].elements(); ++i) one[2].set(i, in[2].at(t * z.heads + i));
      std::vector<int32_t> alone = selected_of(one, 5, {}, precision)[0];
      alone.resize(5, -1);
      EXPECT_EQ(alone, full[static_cast<std::size_t>(t)]) << t;
    }
  }
}

TEST(SelectTopKTest, HoldsBlocksOfScoresNotAll) {
  const auto peak = [](int64_t T) {
    Workspace workspace;
    Tape tape(workspace, Mode::inference);
    std::vector<Var> in;
    const std::vector<Tensor> tensors = operands({1, T, T, 4, 8}, DType::f32);
    for (const Tensor& x : tensors) in.push_back(tape.constant(x));
    select_top_k(in[0], in[1], in[2], 8, {});
    return static_cast<double>(workspace.arena.peak_bytes());
  };
  EXPECT_LT(peak(2048), 2.2 * peak(1024));
  EXPECT_LT(peak(2048), 2048.0 * 2048.0);  // a quarter of one matrix of scores
}

TEST(SelectTopKTest, RefusesWhatDoesNotFit) {
  Workspace workspace;
  Tape tape(workspace, Mode::inference);
  const auto make = [&](const Shape& shape) { return tape.constant(Tensor::zeros(shape, DType::f32)); };
  EXPECT_THROW(select_top_k(make({1, 3, 3}), 0, {}), Error);
  EXPECT_THROW(select_top_k(make({1, 3, 2}), 1, {}), Error);
  EXPECT_THROW(select_top_k(make({3, 3}), 1, {}), Error);
  EXPECT_THROW(select_top_k(make({1, 3, 4}), make({1, 2, 4}), make({1, 3, 1}), 1, {}), Error);
  const auto wide = [&](int64_t d) {
    return select_top_k(make({1, 2, d}), make({1, 2, d}), make({1, 2, 1}), 1, {}, IndexPrecision::int8);
  };
  EXPECT_NO_THROW(wide(1040));
  EXPECT_THROW(wide(1041), Error);
}

}  // namespace
}  // namespace ropewalk::testing
